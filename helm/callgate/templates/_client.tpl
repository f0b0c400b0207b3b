{{/* Pods that call the gateways as clients do: one registers toolsets, one tests the release. */}}

{{- define "callgate.clientPod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  {{- include "callgate.restrictedPod" . | nindent 2 }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- /* They have the gateways' image, so they need nodes that can run it. */}}
{{- include "callgate.placement" (list . (pick .Values.gateway "nodeSelector" "tolerations") "client") }}
{{- end -}}

{{- define "callgate.clientContainer" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
env:
  - name: CALLGATE_URL
    value: "http://{{ include "callgate.fullname" . }}:{{ .Values.gateway.service.port }}"
resources:
  requests: {cpu: 50m, memory: 128Mi}
  limits: {memory: 512Mi}
securityContext:
  {{- include "callgate.restricted" . | nindent 2 }}
{{- end -}}

{{/* Prints the first key of the file `api-keys`, which may have comments. In single quotes it is one word. */}}
{{- define "callgate.firstKey" -}}
grep -v -e "^ *#" -e "^ *$" /etc/callgate/keys/api-keys | head -n 1
{{- end -}}

{{/* Takes the first key, and waits for the gateways that know it. */}}
{{- define "callgate.clientSetUp" -}}
CALLGATE_API_KEY="$({{ include "callgate.firstKey" . }})"
export CALLGATE_API_KEY
python - <<'EOF'
{{ .Files.Get "files/wait.py" | trim }}
EOF
{{- end -}}

{{- define "callgate.keysVolume" -}}
- name: keys
  secret:
    secretName: {{ include "callgate.keysSecret" . }}
    items:
      - key: api-keys
        path: api-keys
{{- end -}}
