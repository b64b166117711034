# Everything runs from .venv, which is made on first use from Python 3.10 or newer and the package registry. Python 3.11
# comes first, because PyBullet has wheels for it on Linux; with a newer one the simulator is MuJoCo.
PYTHON ?= $(shell for p in python3.11 python3.10 python3.12 python3.13 python3.14 python3; do \
	"$$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo "$$p" && break; done)
BIN = .venv/bin

# Tests begin hundreds of interpreters; without its bytecode each would compile everything again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test collected side-by-side long check quick lint style types kernels wheel site bench bench-quick figures clean

demo: .venv/demo
	@echo "2 of 2: the demo: it compiles the simulation once, records a virtual servo, simulates it, compares both, fits the model"
	$(BIN)/axbridge demo --out out/demo --force

# Many tests wait for a served bus, not for the processor: four at a time keep two cores busy.
SIDE_BY_SIDE = -n 4 --dist worksteal
# What measures times runs by itself. Only its files are read: to collect all tests takes eight seconds.
ALONE = $$(grep -rl --include="test_*.py" "mark\.alone" tests)

# mypy needs one core for the better part of a minute, so it works beside the tests.
test: .venv/ready
	$(MAKE) --jobs=2 style kernels collected
	$(MAKE) --jobs=2 types side-by-side
	$(BIN)/pytest -m "alone and not ci" $(ALONE)

# In a new checkout each of the four would rewrite all assertions, seven seconds of work. This does it once, beside the kernels.
collected: .venv/ready
	@test -d tests/cli/__pycache__ || $(BIN)/pytest --collect-only -q > /dev/null || true

side-by-side: .venv/ready
	$(BIN)/pytest $(SIDE_BY_SIDE) -m "not alone and not ci" --durations=25

# Many long tests drive served servos in real time, and four of them at once can be late. What failed then runs by itself;
# 1 is the status of failed tests, and not of a session that broke off.
AGAIN = --last-failed --last-failed-no-failures none

# What takes long and guards what seldom changes: every benchmark at its smallest size, whole fits, long commands of the docs.
long: .venv/ready
	$(BIN)/pytest $(SIDE_BY_SIDE) -m "ci and not alone" --durations=25 || { [ $$? = 1 ] && $(BIN)/pytest -m "ci and not alone" $(AGAIN); }
	$(BIN)/pytest -m "ci and alone" $(ALONE)
	AXBRIDGE_FUZZ=3000 $(BIN)/pytest $(SIDE_BY_SIDE) tests/test_hostile_files.py

# In a minute: the linters, and every test that takes no more than a moment.
check: .venv/ready
	$(MAKE) --jobs=2 style kernels collected
	$(MAKE) --jobs=2 types quick

quick: .venv/ready
	$(BIN)/pytest $(SIDE_BY_SIDE) -m "not slow and not alone and not ci"

# What a user of pip gets: the wheel, made from the sdist, in an environment of its own; its demo run in an empty folder.
wheel: .venv/ready
	rm -rf out/wheel && mkdir -p out/wheel/empty
	$(BIN)/python -m build --outdir out/wheel > out/wheel/build.log || { cat out/wheel/build.log; exit 1; }
	$(BIN)/twine check --strict out/wheel/*.whl out/wheel/*.tar.gz
	$(BIN)/check-wheel-contents out/wheel
	$(PYTHON) -m venv out/wheel/env
	out/wheel/env/bin/python -m pip install --quiet "$$(echo out/wheel/*.whl)[fast,fit,plot,sim]"
	cd out/wheel/empty && ../env/bin/axbridge demo

# The documentation as a site, in site/; a warning (a broken link, a docstring that does not fit) is an error.
site: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

kernels: .venv/ready
	$(BIN)/axbridge warmup

lint: style types

style: .venv/ready
	$(BIN)/ruff format --check
	$(BIN)/ruff check

types: .venv/ready
	$(BIN)/mypy

# Five figures in two minutes: what became slower shows on the day it does. Nothing fails by them.
bench-quick: .venv/ready
	$(BIN)/python benchmarks/quick.py

figures: .venv/ready
	$(BIN)/python tools/make_figures.py

bench: .venv/ready
	@for script in benchmarks/*.py; do echo "# $$script"; $(BIN)/python $$script || exit 1; done

# What the demo needs; developers' tools and other people's programs come with `.venv/ready`. Bytecode is written at first use: pip
# would compile all modules of all packages, twenty seconds of work, and the demo imports a tenth of them.
.venv/demo: pyproject.toml
	@test -n "$(PYTHON)" || { echo "axbridge needs Python 3.10 or newer with its venv module: install python3 and python3-venv"; exit 2; }
	@echo "1 of 2: installing axbridge with what the demo needs into .venv: 1 GB, half a minute; silent meanwhile"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --editable '.[fast,fit,plot,sim]'
	@touch $@

.venv/ready: .venv/demo
	@echo "installing all extras, the tools of developers and the clients of the tests into .venv, about 1.5 GB"
	$(BIN)/python -m pip install --quiet --upgrade pip  # an older one knows no groups
	$(BIN)/python -m pip install --quiet --editable '.[all]' --group dev --group clients
	@touch $@

.venv/docs: .venv/ready
	$(BIN)/python -m pip install --quiet --group docs
	@touch $@

clean:
	rm -rf .venv out dist site
