apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
  labels:
    app.kubernetes.io/name: network-operator
spec:
  selector:
    matchLabels:
      app.kubernetes.io/name: network-operator
  template:
    metadata:
      labels:
        app.kubernetes.io/name: network-operator
    spec:
      {{- with .Values.imagePullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - name: {{ . }}
        {{- end }}
      {{- end }}
      tolerations: {{ toJson .Values.operator.tolerations }}
      containers:
        - name: network-operator
          image: "{{ .Values.operator.repository }}/{{ .Values.operator.image }}:{{ .Chart.AppVersion }}"
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-values
data:
  nfd: {{ toJson .Values.nfd | quote }}
  upgradeCRDs: {{ .Values.upgradeCRDs | quote }}
