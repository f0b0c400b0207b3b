# syntax=docker/dockerfile:1
#
#   docker build -t callgate .
#   docker run -p 8080:8080 -e CALLGATE_API_KEY=choose-one-of-your-own -v callgate:/data callgate
#
# CPU by default. For NVIDIA GPUs take torch from an index of CUDA builds, and run with --gpus all:
#   docker build -t callgate:cuda --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu130 .
#
# vLLM with the plugin, in vLLM's own image:
#   docker build --target vllm -t callgate-vllm .
# The same with SGLang:
#   docker build --target sglang -t callgate-sglang .

ARG PYTHON_IMAGE=python:3.12-slim-bookworm
ARG VLLM_IMAGE=vllm/vllm-openai:v0.32.0
ARG SGLANG_IMAGE=lmsysorg/sglang:v0.5.23

FROM ${PYTHON_IMAGE} AS build
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/callgate
ENV PATH=/opt/callgate/bin:$PATH
WORKDIR /src

# Whatever comes from the package index has one of the hashes that `make lock` has written down.
COPY .image .image
RUN pip install --no-deps --require-hashes -r .image/requirements.txt
# torch's index is yours to choose, so that its hashes are not known here; only its version is.
COPY constraints.txt ./
RUN pip install --index-url "${TORCH_INDEX}" "$(grep '^torch==' constraints.txt)"
RUN python -m venv /opt/build && /opt/build/bin/pip install --no-deps --require-hashes -r .image/build.txt

COPY pyproject.toml README.md LICENSE ./
COPY toolspecs toolspecs
COPY compiler compiler
COPY runtime runtime
COPY gateway gateway
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && pip install --no-deps /wheels/*.whl \
    && pip check

FROM ${VLLM_IMAGE} AS vllm
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY .image .image
COPY --from=build /wheels /wheels
RUN sh .image/add_plugin.sh \
    && useradd --uid 10001 --user-group --create-home --home-dir /cache --shell /usr/sbin/nologin callgate
USER 10001:10001
WORKDIR /cache

FROM ${SGLANG_IMAGE} AS sglang
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_BREAK_SYSTEM_PACKAGES=1
WORKDIR /src
COPY .image .image
COPY --from=build /wheels /wheels
# SGLang 0.5.23 has xgrammar 0.2.7, and the plugin needs the gateways' version.
RUN sh .image/add_plugin.sh xgrammar \
    && useradd --uid 10001 --user-group --create-home --home-dir /cache --shell /usr/sbin/nologin callgate
USER 10001:10001
WORKDIR /cache

FROM ${PYTHON_IMAGE}
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
# Triton compiles a small C program when it first launches a kernel. On CPUs there is no Triton.
# PYTHON_IMAGE may be any Debian release, so no one version of gcc can be named.
# hadolint ignore=DL3008
RUN case "${TORCH_INDEX}" in \
        */cpu) ;; \
        *) apt-get update \
            && apt-get install -y --no-install-recommends gcc libc6-dev \
            && rm -rf /var/lib/apt/lists/* ;; \
    esac
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /cache --shell /usr/sbin/nologin callgate \
    && install --directory --owner callgate --group callgate /data /cache
COPY --from=build /opt/callgate /opt/callgate
ENV PATH=/opt/callgate/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    XDG_CACHE_HOME=/cache \
    HF_HOME=/cache/huggingface \
    CALLGATE_DATA_DIR=/data
USER 10001:10001
WORKDIR /data
VOLUME ["/data", "/cache"]
EXPOSE 8080
# The first start may build or fetch a model; until then the container is "starting", not "unhealthy".
HEALTHCHECK --interval=10s --timeout=5s --start-period=10m --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + (os.environ.get('CALLGATE_PORT') or '8080') + '/healthz', timeout=4)"]
# Without CALLGATE_API_KEY or CALLGATE_API_KEY_FILE the gateway refuses to listen here, and says so.
ENTRYPOINT ["callgate"]
CMD ["serve", "--host", "0.0.0.0"]
