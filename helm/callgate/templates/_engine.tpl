{{/* Pods of vLLM or SGLang: an engine's only pod, or of an engine on several nodes its leader and its workers. */}}

{{- define "callgate.engineName" -}}
{{- printf "%s-engine" (include "callgate.fullname" .) -}}
{{- end -}}

{{- define "callgate.hasEngineWorkers" -}}
{{- if include "callgate.hasEnginePods" . -}}
{{- if gt (int (index .Values.engine .Values.engine.kind).nodes) 1 -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether KEDA says how many engines there are. */}}
{{- define "callgate.scalesEngines" -}}
{{- if and .Values.engine.autoscaling.enabled (include "callgate.hasEnginePods" .) -}}true{{- end -}}
{{- end -}}

{{/* The most engines that there may be. */}}
{{- define "callgate.mostEngines" -}}
{{- if include "callgate.scalesEngines" . -}}
{{- .Values.engine.autoscaling.maxReplicas -}}
{{- else -}}
{{- (index .Values.engine .Values.engine.kind).replicas -}}
{{- end -}}
{{- end -}}

{{/* The pod template, of `engine`, which answers, or `engine-worker`, which only computes: (list ROOT COMPONENT). */}}
{{- define "callgate.enginePod" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $kind := $root.Values.engine.kind -}}
{{- $engine := index $root.Values.engine $kind -}}
{{- $server := include "callgate.server" $root | fromYaml -}}
{{- $runtime := $root.Values.runtime -}}
{{- $answers := eq $component "engine" -}}
metadata:
  labels:
    {{- include "callgate.podLabels" (list $root $component) | nindent 4 }}
spec:
  serviceAccountName: {{ include "callgate.serviceAccountName" $root }}
  automountServiceAccountToken: false
  # Otherwise Kubernetes would set VLLM_PORT for a service called `vllm`, which vLLM reads; SGLang reads SGLANG_PORT.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ $engine.terminationGracePeriodSeconds }}
  {{- with $engine.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  securityContext:
    {{- include "callgate.restrictedPod" $root | nindent 4 }}
  {{- with $root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if $engine.addPlugin }}
  initContainers:
    # Copies the plugin out of the gateways' image. It comes behind all that the engine's image has, but for the packages
    # that are named after the folder.
    - name: plugin
      image: "{{ $root.Values.image.repository }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}"
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      command: ["python", "-m", "runtime.engines.plugin_folder", "/plugin/callgate"{{ range $server.replacedPackages }}, {{ . | quote }}{{ end }}]
      resources:
        requests: {cpu: 100m, memory: 128Mi}
        limits: {memory: 512Mi}
      securityContext:
        {{- include "callgate.restricted" $root | nindent 8 }}
      volumeMounts:
        - name: plugin
          mountPath: /plugin
  {{- end }}
  containers:
    - name: {{ $kind }}
      image: "{{ $engine.image.repository }}:{{ $engine.image.tag | default $root.Chart.AppVersion }}"
      imagePullPolicy: {{ $engine.image.pullPolicy }}
      command: {{ toJson $server.command }}
      args:
        - {{ $runtime.model | quote }}
        {{- if $answers }}
        - --host=0.0.0.0
        - --port=8000
        {{- end }}
        {{- include (printf "callgate.%sArguments" $kind) . | trim | nindent 8 }}
        {{- if ne $runtime.dtype "auto" }}
        - --dtype={{ $runtime.dtype }}
        {{- end }}
        {{- range $engine.args }}
        - {{ . | quote }}
        {{- end }}
      env:
        - name: HOME
          value: /cache
        # PyTorch asks for the user's name, which another's image does not know.
        - name: USER
          value: callgate
        {{- if $engine.addPlugin }}
        - name: PYTHONPATH
          value: /plugin/callgate/path
        {{- end }}
        {{- include "callgate.hubEnv" $root | nindent 8 }}
        {{- include (printf "callgate.%sEnv" $kind) $root | nindent 8 }}
        {{- if $answers }}
        - name: {{ $server.apiKeyVariable }}
          valueFrom:
            secretKeyRef:
              name: {{ include "callgate.engineSecret" $root }}
              key: api-key
        {{- end }}
        # Without these settings, the plugin does nothing.
        {{- if or $answers $server.haveWorkersGrammars }}
        - name: CALLGATE_GRAMMAR_CACHE_BYTES
          value: {{ $engine.grammarCacheBytes | int64 | quote }}
        {{- include "callgate.storeEnv" $root | nindent 8 }}
        {{- end }}
        {{- with $engine.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- if $answers }}
      ports:
        - name: http
          containerPort: 8000
      # An engine is healthy once its model is loaded and warm. The gateways ask nothing of it before their canary has passed.
      startupProbe:
        httpGet: {path: /health, port: http}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: {{ mul 6 $engine.startupMinutes }}
      livenessProbe:
        httpGet: {path: /health, port: http}
        periodSeconds: {{ add 5 $server.healthSeconds }}
        timeoutSeconds: {{ $server.healthSeconds }}
        failureThreshold: 4
      readinessProbe:
        httpGet: {path: /health, port: http}
        periodSeconds: 5
        timeoutSeconds: 5
      lifecycle:
        preStop:
          exec:
            command: ["sleep", "5"]
      {{- end }}
      resources:
        {{- $resources := deepCopy $engine.resources }}
        {{- if gt (int $engine.gpu.count) 0 }}
        {{- $limits := merge (dict $engine.gpu.resource (int $engine.gpu.count)) (default dict $resources.limits) }}
        {{- $_ := set $resources "limits" $limits }}
        {{- end }}
        {{- toYaml $resources | nindent 8 }}
      securityContext:
        {{- include "callgate.restricted" $root | nindent 8 }}
      volumeMounts:
        - name: cache
          mountPath: /cache
        {{- include "callgate.hubMount" $root | nindent 8 }}
        - name: tmp
          mountPath: /tmp
        - name: shared-memory
          mountPath: /dev/shm
        {{- if $engine.addPlugin }}
        - name: plugin
          mountPath: /plugin
          readOnly: true
        {{- end }}
        {{- if $runtime.modelVolume }}
        - name: models
          mountPath: /models
          readOnly: true
        {{- end }}
  volumes:
    - name: tmp
      emptyDir: {}
    {{- include "callgate.hubVolume" $root | nindent 4 }}
    - name: shared-memory
      emptyDir:
        medium: Memory
        sizeLimit: {{ $engine.sharedMemory }}
    {{- if $engine.addPlugin }}
    # The same path in both containers: what the folder holds knows its own place.
    - name: plugin
      emptyDir: {}
    {{- end }}
    {{- if not $engine.cache.enabled }}
    - name: cache
      emptyDir: {}
    {{- end }}
    {{- with $runtime.modelVolume }}
    - name: models
      {{- toYaml . | nindent 6 }}
    {{- end }}
  {{- include "callgate.placement" (list $root $engine $component) | nindent 2 }}
{{- end -}}
