"""A language model of a few kilobytes: real for every program that serves one, with senseless replies."""

import random
import struct
from pathlib import Path

CONTEXT = 512
_WIDTH, _HIDDEN, _HEADS, _BLOCKS = 32, 64, 2, 1
_UNSIGNED, _FLOAT, _TEXT, _ARRAY, _INT, _BOOL = 4, 6, 8, 9, 5, 7
_ALIGNMENT = 32
# Unknown, begin, end, then one token for each byte.
_TOKENS = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
_KINDS = [2, 3, 3, *([6] * 256)]


def write_model(file: Path, context: int = CONTEXT) -> Path:
    """Write the model in GGUF format, with a header that claims this context length."""
    rng = random.Random(7)
    tensors = {
        "token_embd.weight": (_WIDTH, len(_TOKENS)),
        "output_norm.weight": (_WIDTH,),
        "output.weight": (_WIDTH, len(_TOKENS)),
        "blk.0.attn_norm.weight": (_WIDTH,),
        "blk.0.ffn_norm.weight": (_WIDTH,),
        **{f"blk.0.attn_{part}.weight": (_WIDTH, _WIDTH) for part in ("q", "k", "v", "output")},
        "blk.0.ffn_gate.weight": (_WIDTH, _HIDDEN),
        "blk.0.ffn_up.weight": (_WIDTH, _HIDDEN),
        "blk.0.ffn_down.weight": (_HIDDEN, _WIDTH),
    }
    facts = [
        _fact("general.architecture", _TEXT, "llama"),
        _fact("llama.block_count", _UNSIGNED, _BLOCKS),
        _fact("llama.context_length", _UNSIGNED, context),
        _fact("llama.embedding_length", _UNSIGNED, _WIDTH),
        _fact("llama.feed_forward_length", _UNSIGNED, _HIDDEN),
        _fact("llama.attention.head_count", _UNSIGNED, _HEADS),
        _fact("llama.attention.layer_norm_rms_epsilon", _FLOAT, 1e-5),
        _fact("tokenizer.ggml.model", _TEXT, "llama"),
        _list("tokenizer.ggml.tokens", _TEXT, _TOKENS),
        _list("tokenizer.ggml.scores", _FLOAT, [0.0] * len(_TOKENS)),
        _list("tokenizer.ggml.token_type", _INT, _KINDS),
        _fact("tokenizer.ggml.bos_token_id", _UNSIGNED, 1),
        _fact("tokenizer.ggml.eos_token_id", _UNSIGNED, 2),
        _fact("tokenizer.ggml.add_space_prefix", _BOOL, False),
    ]
    index, data = b"", b""
    for name, shape in tensors.items():
        index += _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = [rng.gauss(0, 0.3) for _ in range(count)] if len(shape) > 1 else [1.0] * count
        data += _align(struct.pack(f"<{count}f", *values))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(facts)) + b"".join(facts) + index
    file.write_bytes(_align(head) + data)
    return file


def _fact(name: str, kind: int, value) -> bytes:
    return _text(name) + struct.pack("<I", kind) + _value(kind, value)


def _list(name: str, kind: int, values: list) -> bytes:
    head = _text(name) + struct.pack("<IIQ", _ARRAY, kind, len(values))
    return head + b"".join(_value(kind, value) for value in values)


def _value(kind: int, value) -> bytes:
    return (
        _text(value)
        if kind == _TEXT
        else struct.pack({_UNSIGNED: "<I", _FLOAT: "<f", _INT: "<i", _BOOL: "<?"}[kind], value)
    )


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _align(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGNMENT)
