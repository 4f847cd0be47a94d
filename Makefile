.PHONY: demo test quick check bench docs lock page figures

demo: .venv/.ready   ## optimise an example for at most two minutes
	@sh scripts/demo.sh

test: check .venv/.ready-for-tests page  ## everything that must hold
	.venv/bin/python -m compileall -q src sdk/python
	sh scripts/test.sh

quick: check         ## before each commit: style, types, imports, the fast tests
	.venv/bin/pytest -n auto -q $(addprefix tests/,$(QUICK))

QUICK = domain engine kit ledgers proposers record show taskfile

check: .venv/.ready-for-development  ## style, types, direction of imports
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-cache
	@.venv/bin/python scripts/page.py check

page: .venv/.ready   ## build the dashboard's page
	@.venv/bin/python scripts/page.py build

bench: .venv/.ready-for-development  ## speed and cost, side by side with peers
	.venv/bin/python benchmarks/run.py

figures: .venv/.ready   ## how livable the source is, beside the aims
	@.venv/bin/python scripts/figures.py

docs: .venv/.ready   ## write the reference page of loopty.toml
	.venv/bin/python -m loopty.taskfile.reference > docs/task-file.md

lock: .venv/.ready   ## pin every dependency
	.venv/bin/pip install --quiet uv
	.venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --extra samplers --extra models --extra anthropic --extra google --extra keyring --extra parquet --extra mlflow --extra wandb --extra postgres --extra ray \
		--group dev -o requirements.lock pyproject.toml
	.venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --constraint requirements.lock --group install -o requirements-runtime.lock pyproject.toml

.venv/.ready: requirements-runtime.lock pyproject.toml scripts/setup.sh
	@sh scripts/setup.sh $^

.venv/.ready-for-development: .venv/.ready requirements.lock scripts/setup_development.sh
	@sh scripts/setup_development.sh $^

.venv/.ready-for-tests: .venv/.ready-for-development scripts/setup_tests.sh
	sh scripts/setup_tests.sh
