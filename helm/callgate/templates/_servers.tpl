{{/* What differs between the servers of engine.kind `vllm` and `sglang`. All else of their pods is in _engine.tpl. */}}

{{/* Whether this chart runs engines in pods of their own. */}}
{{- define "callgate.hasEnginePods" -}}
{{- if has .Values.engine.kind (list "vllm" "sglang") -}}true{{- end -}}
{{- end -}}

{{/* The differences, as YAML.
  title                 the server's name
  command               what a container starts, before the model
  replacedPackages      packages of the server's image that the plugin replaces: it needs another version of them
  apiKeyVariable        the variable with the key that the server asks for
  healthSeconds         how long the route /health may take. SGLang generates a token for it, and gives up after 20 s.
  haveWorkersGrammars   whether all pods of an engine read grammars, or its leader alone */}}
{{- define "callgate.server" -}}
{{- if eq .Values.engine.kind "vllm" -}}
title: vLLM
command: [vllm, serve]
replacedPackages: []
apiKeyVariable: VLLM_API_KEY
healthSeconds: 10
haveWorkersGrammars: false
{{- else -}}
title: SGLang
command: [sglang, serve]
replacedPackages: [xgrammar]
apiKeyVariable: SGLANG_API_KEY
healthSeconds: 25
haveWorkersGrammars: true
{{- end -}}
{{- end -}}

{{/* Whether there are workers that read grammars. */}}
{{- define "callgate.haveWorkersGrammars" -}}
{{- if and (include "callgate.hasEngineWorkers" .) (include "callgate.server" . | fromYaml).haveWorkersGrammars -}}true{{- end -}}
{{- end -}}

{{/* Arguments of `vllm serve` beside those of both servers: (list ROOT COMPONENT). */}}
{{- define "callgate.vllmArguments" -}}
{{- $engine := (index . 0).Values.engine.vllm -}}
{{- $answers := eq (index . 1) "engine" -}}
{{- if not $answers }}
- --headless
{{- end }}
- '--structured-outputs-config={"backend": "xgrammar"}'
{{- if gt (int $engine.gpu.count) 1 }}
- --tensor-parallel-size={{ $engine.gpu.count }}
{{- end }}
{{- if gt (int $engine.nodes) 1 }}
- --pipeline-parallel-size={{ $engine.nodes }}
- --distributed-executor-backend=mp
- --nnodes={{ $engine.nodes }}
- --node-rank={{ $answers | ternary "0" "$(LWS_WORKER_INDEX)" }}
- --master-addr=$(LWS_LEADER_ADDRESS)
{{- end }}
# Otherwise vLLM aborts its running requests as soon as it is told to end. The rest of the grace is for preStop and
# for what ends after the requests.
- --shutdown-timeout={{ max 0 (sub (int $engine.terminationGracePeriodSeconds) 15) }}
{{- end -}}

{{/* The same of `sglang serve`. When SGLang is told to end, it waits for its requests without being asked to. */}}
{{- define "callgate.sglangArguments" -}}
{{- $engine := (index . 0).Values.engine.sglang -}}
{{- $answers := eq (index . 1) "engine" -}}
{{- if $answers }}
# SGLang reads its key from no variable.
- --api-key=$(SGLANG_API_KEY)
{{- end }}
- --grammar-backend=xgrammar
# Otherwise SGLang repeats the whole output with each token.
- --incremental-streaming-output
- --enable-metrics
{{- $parallel := mul (int $engine.nodes) (int $engine.gpu.count) }}
{{- if gt $parallel 1 }}
- --tensor-parallel-size={{ $parallel }}
{{- end }}
{{- if gt (int $engine.nodes) 1 }}
- --nnodes={{ $engine.nodes }}
- --node-rank={{ $answers | ternary "0" "$(LWS_WORKER_INDEX)" }}
- --dist-init-addr=$(LWS_LEADER_ADDRESS):20000
{{- end }}
{{- end -}}

{{/* Variables of vLLM beside those of both servers. */}}
{{- define "callgate.vllmEnv" -}}
- name: VLLM_CACHE_ROOT
  value: /cache/vllm
- name: VLLM_NO_USAGE_STATS
  value: "1"
{{- if include "callgate.hasEngineWorkers" . }}
- name: VLLM_HOST_IP
  {{- include "callgate.podAddress" . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The same of SGLang. */}}
{{- define "callgate.sglangEnv" -}}
- name: SGLANG_CACHE_DIR
  value: /cache/sglang
{{- if include "callgate.hasEngineWorkers" . }}
- name: SGLANG_HOST_IP
  {{- include "callgate.podAddress" . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "callgate.podAddress" -}}
valueFrom:
  fieldRef:
    fieldPath: status.podIP
{{- end -}}
