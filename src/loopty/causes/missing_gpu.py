"""Causes: a benchmark that wants a GPU, which trials see only where the task names it."""

from __future__ import annotations

from loopty.causes.cause import Cause, Reach
from loopty.causes.failure import Failure
from loopty.causes.host_facts import HostFacts

_NO_GPU = (
    # CUDA and its driver, as CuPy, Numba, PyTorch, TensorFlow and compiled programs pass their words on.
    r"[Nn]o CUDA-capable device is detected",
    r"CUDA_ERROR_NO_DEVICE|cudaErrorNoDevice|cudaErrorInsufficientDriver|CUDA_ERROR_NOT_INITIALIZED",
    # Under Landlock the device is there and cannot be opened.
    r"cudaErrorOperatingSystem|Unexpected error from cudaGetDeviceCount\(\)",
    r"CUDA driver version is insufficient for CUDA runtime version",
    r"[Ff]ailed call to cuInit",
    r"Failed to initialize NVML|NVML: Driver Not Loaded|NVMLError_\w+",
    r"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver",
    # PyTorch, and what scripts for it assert
    r"No (?:CUDA|HIP) GPUs are available",
    r"Found no NVIDIA driver on your system",
    r"Attempting to deserialize object on (?:a )?CUDA device.* torch\.cuda\.is_available\(\) is False",
    r"assert torch\.cuda\.is_available\(\)",
    # Triton
    r"0 active drivers \(\[\]\)",
    # JAX and XLA
    r"No visible GPU devices",
    r"[Nn]o supported devices found for platform (?:CUDA|ROCM)",
    r"Unable to initialize backend '(?:cuda|rocm|gpu)'",
    r"Unknown backend:? '?(?:gpu|cuda|rocm)'?",
    # ROCm
    r"hipErrorNoDevice|[Nn]o ROCm-capable device is detected",
    r"Unable to open /dev/kfd",
    # Numba and TensorFlow, in words of their own
    r"CudaSupportError|No GPU (?:devices? )?found|GPU device not found",
)


def missing_gpu(failure: Failure, facts: HostFacts) -> Cause | None:
    """A benchmark that found no GPU: trials have those that the task names, with the user's permission."""
    if failure.task.benchmark.devices or not failure.match(*_NO_GPU):
        return None
    if not facts.has_gpu():
        return Cause(
            "no-gpu",
            f"{failure.subject} wants a GPU, and this machine shows none (/dev/nvidia*, /dev/kfd)",
            advice="load its driver, or run the trials on a machine that has one, with workers (docs/workers.md)",
        )
    line = failure.setting_with("devices", "gpu")
    return Cause(
        "gpu-outside-the-sandbox",
        f"{failure.subject} wants a GPU, and trials see the one of this machine only where the task names it",
        (line,),
        shell=f"sed -i '/^\\[benchmark\\]/a {line.line}' loopty.toml && loopty run 1 --check --trust",
        reach=Reach.OUTSIDE,
    )
