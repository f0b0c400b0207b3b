{{- define "callgate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "callgate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "callgate.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "callgate.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "callgate.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: callgate
{{- end -}}

{{- define "callgate.selector" -}}
app.kubernetes.io/name: {{ include "callgate.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* Labels of pods: those of the chart's version would restart every pod with each upgrade of the chart. */}}
{{- define "callgate.podLabels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/part-of: callgate
{{ include "callgate.selector" $root }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* Where pods run: (list ROOT VALUES COMPONENT). A spread without a selector is of the pods of this component. */}}
{{- define "callgate.placement" -}}
{{- $root := index . 0 -}}
{{- $values := index . 1 -}}
{{- $component := index . 2 -}}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  {{- $pods := dict "matchLabels" (fromYaml (printf "%s\napp.kubernetes.io/component: %s" (include "callgate.selector" $root) $component)) }}
  - {{- toYaml (hasKey . "labelSelector" | ternary . (merge (dict "labelSelector" $pods) .)) | nindent 4 }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "callgate.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "callgate.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "callgate.keysSecret" -}}
{{- default (printf "%s-keys" (include "callgate.fullname" .)) .Values.auth.existingSecret -}}
{{- end -}}

{{- define "callgate.metricsSecret" -}}
{{- default (printf "%s-metrics" (include "callgate.fullname" .)) .Values.metrics.existingSecret -}}
{{- end -}}

{{/* The job as which Prometheus knows the gateways: a ServiceMonitor calls it like the Service. */}}
{{- define "callgate.job" -}}
{{- default (include "callgate.fullname" .) .Values.metrics.job -}}
{{- end -}}

{{/* What selects the series of this release. Other services have some of these metrics, by OpenTelemetry's conventions. */}}
{{- define "callgate.metricsOf" -}}
{{- printf "namespace=%q, job=%q" .Release.Namespace (include "callgate.job" .) -}}
{{- end -}}

{{- define "callgate.redisSecret" -}}
{{- default (printf "%s-redis" (include "callgate.fullname" .)) .Values.redis.existingSecret -}}
{{- end -}}

{{/* Whether KEDA says how many gateways there are, because the engines are in them. */}}
{{- define "callgate.scalesGatewaysByQueue" -}}
{{- if and .Values.engine.autoscaling.enabled (eq .Values.engine.kind "embedded") -}}true{{- end -}}
{{- end -}}

{{- define "callgate.hasSharedStore" -}}
{{- if or .Values.redis.enabled .Values.redis.external.url .Values.redis.external.existingSecret -}}true{{- end -}}
{{- end -}}

{{/* How long a gateway that ends lets answers go on: its grace, without its preStop hook and the time in which the last
errors are sent. */}}
{{- define "callgate.drainSeconds" -}}
{{- max 0 (sub (int .Values.gateway.terminationGracePeriodSeconds) 12) -}}
{{- end -}}

{{/* Refuses values that are valid one by one but not together. */}}
{{- define "callgate.check" -}}
{{- if and .Values.redis.enabled (or .Values.redis.external.url .Values.redis.external.existingSecret) -}}
{{- fail "redis.external: to use your own Redis, set redis.enabled to false" -}}
{{- end -}}
{{- $replicas := .Values.gateway.replicas | int -}}
{{- if .Values.gateway.autoscaling.enabled -}}{{- $replicas = .Values.gateway.autoscaling.maxReplicas | int -}}{{- end -}}
{{- if include "callgate.scalesGatewaysByQueue" . -}}{{- $replicas = .Values.engine.autoscaling.maxReplicas | int -}}{{- end -}}
{{- if and (gt $replicas 1) (not (include "callgate.hasSharedStore" .)) -}}
{{- fail "gateway.replicas: several gateways need a shared store; enable redis, or set redis.external" -}}
{{- end -}}
{{- if and .Values.toolsets (not (include "callgate.hasSharedStore" .)) -}}
{{- fail "toolsets: without a shared store they are lost with the pod, and no hook applies them again; enable redis, or set redis.external" -}}
{{- end -}}
{{- $drain := .Values.gateway.settings.drain_seconds | default 0 | float64 -}}
{{- if gt $drain (include "callgate.drainSeconds" . | float64) -}}
{{- fail (printf "gateway.settings.drain_seconds: Kubernetes kills a pod that ends after gateway.terminationGracePeriodSeconds; set that to %d or more" (add 12 (ceil $drain | int))) -}}
{{- end -}}
{{- if and (not (hasKey .Values.gateway.settings "drain_seconds")) (gt (int .Values.gateway.requestSeconds) (int (include "callgate.drainSeconds" .))) -}}
{{- fail (printf "gateway.terminationGracePeriodSeconds: an answer may take requestSeconds, and a pod that ends needs 12 more; set it to %d or more" (add 12 (int .Values.gateway.requestSeconds))) -}}
{{- end -}}
{{- $scaling := .Values.gateway.autoscaling -}}
{{- if and $scaling.enabled (gt (int $scaling.minReplicas) (int $scaling.maxReplicas)) -}}
{{- fail "gateway.autoscaling.minReplicas: it is larger than maxReplicas" -}}
{{- end -}}
{{- $resources := .Values.gateway.resources | default dict -}}
{{- if and $scaling.enabled (not (or (dig "cpu" "" ($resources.requests | default dict)) (dig "cpu" "" ($resources.limits | default dict)))) -}}
{{- fail "gateway.resources.requests.cpu: gateway.autoscaling keeps a percentage of it; set one" -}}
{{- end -}}
{{- $engine := .Values.engine -}}
{{- if and $engine.autoscaling.enabled (eq $engine.kind "external") -}}
{{- fail "engine.autoscaling: engines that run already are scaled by whoever runs them" -}}
{{- end -}}
{{- if and $engine.autoscaling.enabled (not (and $engine.autoscaling.prometheus.url .Values.metrics.enabled)) -}}
{{- fail "engine.autoscaling.prometheus.url: KEDA asks a Prometheus that scrapes the gateways; set its URL, and metrics.enabled" -}}
{{- end -}}
{{- if and .Values.gateway.autoscaling.enabled (include "callgate.scalesGatewaysByQueue" .) -}}
{{- fail "engine.autoscaling: embedded engines are the gateways, which gateway.autoscaling scales; switch one of the two off" -}}
{{- end -}}
{{- if and $engine.autoscaling.enabled (gt (int $engine.autoscaling.minReplicas) (int $engine.autoscaling.maxReplicas)) -}}
{{- fail "engine.autoscaling.minReplicas: it is larger than maxReplicas" -}}
{{- end -}}
{{- $pods := index $engine $engine.kind | default dict -}}
{{- if and (include "callgate.hasEngineWorkers" .) $pods.cache.enabled -}}
{{- fail (printf "engine.%s.cache: pods of a LeaderWorkerSet have no claim of their own; set cache.enabled to false, and give models by runtime.hubClaim or runtime.modelVolume" $engine.kind) -}}
{{- end -}}
{{- if and (ne $engine.kind "embedded") (not (has (include "callgate.engineServer" .) (list "llama_server" "vllm_stock"))) (not (include "callgate.hasSharedStore" .)) -}}
{{- fail "engine.kind: external engines read grammars from a shared store; enable redis, or set redis.external" -}}
{{- end -}}
{{- if and (ne $engine.kind "embedded") (gt (int .Values.runtime.gpu.count) 0) -}}
{{- fail "runtime.gpu: the gateways do not compute the model; give the GPUs to the engines, such as by engine.vllm.gpu" -}}
{{- end -}}
{{- if and (include "callgate.hasEnginePods" .) (has .Values.runtime.model (list "demo" "tiny" "smollm2" "random")) -}}
{{- fail (printf "runtime.model: %s does not know %q; set a hub id, or a directory below /models" (include "callgate.server" . | fromYaml).title .Values.runtime.model) -}}
{{- end -}}
{{- if and .Values.runtime.hubClaim (or (hasPrefix "/" .Values.runtime.model) (not (contains "/" .Values.runtime.model))) -}}
{{- fail (printf "runtime.hubClaim: only a hub id can be downloaded, and runtime.model is %q" .Values.runtime.model) -}}
{{- end -}}
{{- if and (eq $engine.kind "external") (not $engine.urls) -}}
{{- fail "engine.urls: external engines need their URLs, such as http://vllm.models:8000" -}}
{{- end -}}
{{- if and (ne $engine.kind "external") (or $engine.urls $engine.modelName (ne $engine.server "vllm")) -}}
{{- fail "engine: urls, server and modelName are for engines that run already; set engine.kind to external" -}}
{{- end -}}
{{- $settings := .Values.gateway.settings -}}
{{- if and (ne $engine.kind "embedded") (or $settings.adapter (gt (int $settings.particles) 1)) -}}
{{- fail "gateway.settings: adapter and particles are for the embedded engine, and a gateway before other engines does not start with them; leave them out" -}}
{{- end -}}
{{- if and (eq $engine.kind "embedded") (or $settings.tokenizer $settings.engine_ca_bundle) -}}
{{- fail "gateway.settings: tokenizer and engine_ca_bundle are for engines outside the gateways, which do not start with them; leave them out" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.hosts: name the hosts by which clients call" -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
{{- fail "httpRoute.parentRefs: name the Gateway that the route belongs to" -}}
{{- end -}}
{{- if and (not .Values.metrics.enabled) (or .Values.metrics.serviceMonitor.enabled .Values.metrics.prometheusRule.enabled .Values.metrics.dashboard.enabled) -}}
{{- fail "metrics.enabled: without metrics there is nothing to scrape, to show or to alert of; set it, or switch these off" -}}
{{- end -}}
{{- if and (eq .Values.telemetry.exporter "otlp") (not .Values.telemetry.otlpEndpoint) -}}
{{- fail "telemetry.otlpEndpoint: the otlp exporter needs an endpoint; set one, such as http://collector:4318/v1/traces" -}}
{{- end -}}
{{- end -}}

{{/* Writes a scalar as TOML. Helm reads every number as a float, so whole numbers lose their fraction. */}}
{{- define "callgate.toml" -}}
{{- if kindIs "string" . -}}{{ . | toJson }}{{- else if kindIs "bool" . -}}{{ . }}{{- else if eq (float64 (int64 .)) (float64 .) -}}{{ int64 . }}{{- else -}}{{ . }}{{- end -}}
{{- end -}}

{{- define "callgate.engineSecret" -}}
{{- default (printf "%s-engine" (include "callgate.fullname" .)) .Values.engine.existingSecret -}}
{{- end -}}

{{- define "callgate.hasEngineKey" -}}
{{- if or (include "callgate.hasEnginePods" .) (and (eq .Values.engine.kind "external") .Values.engine.existingSecret) -}}true{{- end -}}
{{- end -}}

{{/* What the engines' servers are, as the gateways' setting `engine` names it. */}}
{{- define "callgate.engineServer" -}}
{{- eq .Values.engine.kind "external" | ternary .Values.engine.server .Values.engine.kind -}}
{{- end -}}

{{/* The URLs of the engines, as a TOML array: each replica by its own name, since the gateways choose among them. Names
of engines that KEDA has not started are found nowhere, and asked for until they are. */}}
{{- define "callgate.engineURLs" -}}
{{- if eq .Values.engine.kind "external" -}}
{{- toJson .Values.engine.urls -}}
{{- else -}}
{{- $name := include "callgate.engineName" . -}}
{{- $urls := list -}}
{{- range until (int (include "callgate.mostEngines" .)) -}}
{{- $urls = append $urls (printf "http://%s-%d.%s:8000" $name . $name) -}}
{{- end -}}
{{- toJson $urls -}}
{{- end -}}
{{- end -}}

{{/* The store and the secret, which gateways and engines share. */}}
{{- define "callgate.storeEnv" -}}
- name: CALLGATE_SECRET
  valueFrom:
    secretKeyRef:
      name: {{ include "callgate.keysSecret" . }}
      key: grammar-secret
{{- if .Values.redis.enabled }}
- name: CALLGATE_STORE_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ include "callgate.redisSecret" . }}
      key: password
- name: CALLGATE_STORE
  value: "redis://{{ include "callgate.fullname" . }}-redis:6379/0"
{{- else if include "callgate.hasSharedStore" . }}
- name: CALLGATE_STORE
  valueFrom:
    secretKeyRef:
      name: {{ default (printf "%s-store" (include "callgate.fullname" .)) .Values.redis.external.existingSecret }}
      key: url
{{- end }}
{{- end -}}

{{/* The hub's token, for whoever downloads. */}}
{{- define "callgate.hubTokenEnv" -}}
{{- with .Values.runtime.hubTokenSecret }}
- name: HF_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: token
{{- end }}
{{- end -}}

{{/* How pods that read models find the hub: by themselves, or in what the Job has downloaded, and nowhere else. */}}
{{- define "callgate.hubEnv" -}}
- name: HF_HOME
  value: /cache/huggingface
{{- if .Values.runtime.hubClaim }}
- name: HF_HUB_OFFLINE
  value: "1"
{{- else }}
{{- include "callgate.hubTokenEnv" . }}
{{- end }}
{{- end -}}

{{- define "callgate.hubMount" -}}
{{- if .Values.runtime.hubClaim -}}
- name: hub
  mountPath: /cache/huggingface
  readOnly: true
{{- end -}}
{{- end -}}

{{- define "callgate.hubVolume" -}}
{{- with .Values.runtime.hubClaim -}}
- name: hub
  persistentVolumeClaim:
    claimName: {{ . }}
{{- end -}}
{{- end -}}

{{/* What the restricted Pod Security Standard asks of a container. */}}
{{- define "callgate.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* The same of a pod, as user 10001. */}}
{{- define "callgate.restrictedPod" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
# Otherwise Kubernetes changes the group of every file of a volume, each time a pod starts: minutes, for many models.
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}
