"""Which package of the index provides a Python module: only for names that are known."""

from __future__ import annotations

_OTHER_NAMES = {
    "Bio": "biopython",
    "Crypto": "pycryptodome",
    "Cython": "cython",
    "IPython": "ipython",
    "Levenshtein": "levenshtein",
    "MySQLdb": "mysqlclient",
    "OpenGL": "pyopengl",
    "OpenSSL": "pyopenssl",
    "PIL": "pillow",
    "absl": "absl-py",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "faiss": "faiss-cpu",
    "fontTools": "fonttools",
    "fitz": "pymupdf",
    "git": "gitpython",
    "haiku": "dm-haiku",
    "jwt": "pyjwt",
    "magic": "python-magic",
    "mpl_toolkits": "matplotlib",
    "nacl": "pynacl",
    "osgeo": "gdal",
    "pdfminer": "pdfminer.six",
    "pkg_resources": "setuptools",
    "pptx": "python-pptx",
    "psycopg2": "psycopg2-binary",
    "pywt": "pywavelets",
    "rapidjson": "python-rapidjson",
    "rpds": "rpds-py",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "skopt": "scikit-optimize",
    "slugify": "python-slugify",
    "snappy": "python-snappy",
    "socks": "pysocks",
    "usb": "pyusb",
    "xdist": "pytest-xdist",
    "yaml": "pyyaml",
    "zmq": "pyzmq",
}
_SAME_NAME = """
    accelerate aiohttp altair anthropic asv attrs bokeh boto3 botocore brotli cachetools cattrs certifi cffi
    chardet charset_normalizer click cloudpickle cma colorama contourpy coverage cryptography cvxopt cvxpy
    cycler cython dacite dask datasets deap dill diskcache distributed django docutils duckdb einops fastapi
    filelock flask flax fsspec gensim geopandas gevent greenlet gurobipy gym gymnasium h5py highspy httpx
    huggingface_hub hypothesis idna igraph imageio importlib_metadata ipykernel isort jax jaxlib jinja2 joblib
    jsonschema keras kiwisolver librosa lightgbm llvmlite loguru lxml lz4 mako markdown markupsafe matplotlib
    meson mmh3 mpmath msgpack msgspec multidict mypy nbformat networkx nevergrad ninja nltk nose notebook numba
    numexpr numpy ollama onnx onnxruntime openai opt_einsum optax optuna orjson ortools packaging pandas
    parameterized pathspec patsy peewee pendulum pexpect pint plotly pluggy polars portalocker prettytable
    prompt_toolkit psutil psycopg pulp pyarrow pybind11 pycparser pydantic pyfftw pygame pygments pymongo pyomo
    pyparsing pyperf pyscipopt pytest pytest_asyncio pytest_benchmark pytest_cov pytz ray redis regex requests
    rich safetensors scipy seaborn sentencepiece setuptools setuptools_scm shapely simplejson six
    sortedcontainers sphinx sqlalchemy starlette statsmodels sympy tabulate tensorboard tensorflow threadpoolctl
    tiktoken tokenizers toml tomli tomlkit toolz torch torchaudio torchvision tornado tqdm traitlets
    transformers trio triton typer ujson urllib3 uvicorn uvloop wandb websockets werkzeug wheel wrapt xarray
    xgboost xxhash yarl zstandard
"""


def distribution_of(module: str) -> str:
    """The package that provides this module; empty where that is not known."""
    if module in _SAME_NAME.split():
        return module.replace("_", "-")
    return _OTHER_NAMES.get(module, "")
