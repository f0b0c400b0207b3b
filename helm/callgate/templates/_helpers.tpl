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

{{- define "callgate.redisSecret" -}}
{{- default (printf "%s-redis" (include "callgate.fullname" .)) .Values.redis.existingSecret -}}
{{- end -}}

{{- define "callgate.hasSharedStore" -}}
{{- if or .Values.redis.enabled .Values.redis.external.url .Values.redis.external.existingSecret -}}true{{- end -}}
{{- end -}}

{{/* Refuses values that are valid one by one but not together. */}}
{{- define "callgate.check" -}}
{{- if .Values.runtime.enabled -}}
{{- fail "runtime.enabled: this release cannot run the runtime in pods of its own; leave it false, and every gateway pod loads the model itself" -}}
{{- end -}}
{{- if and .Values.redis.enabled (or .Values.redis.external.url .Values.redis.external.existingSecret) -}}
{{- fail "redis.external: to use your own Redis, set redis.enabled to false" -}}
{{- end -}}
{{- $replicas := .Values.gateway.replicas | int -}}
{{- if .Values.gateway.autoscaling.enabled -}}{{- $replicas = .Values.gateway.autoscaling.maxReplicas | int -}}{{- end -}}
{{- if and (gt $replicas 1) (not (include "callgate.hasSharedStore" .)) -}}
{{- fail "gateway.replicas: several gateways need a shared store; enable redis, or set redis.external" -}}
{{- end -}}
{{- if and (eq .Values.telemetry.exporter "otlp") (not .Values.telemetry.otlpEndpoint) -}}
{{- fail "telemetry.otlpEndpoint: the otlp exporter needs an endpoint; set one, such as http://collector:4318/v1/traces" -}}
{{- end -}}
{{- end -}}

{{/* Writes a scalar as TOML. Helm reads every number as a float, so whole numbers lose their fraction. */}}
{{- define "callgate.toml" -}}
{{- if kindIs "string" . -}}{{ . | toJson }}{{- else if kindIs "bool" . -}}{{ . }}{{- else if eq (float64 (int64 .)) (float64 .) -}}{{ int64 . }}{{- else -}}{{ . }}{{- end -}}
{{- end -}}
