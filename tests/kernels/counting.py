"""An ndarray that counts the ufunc and matmul calls it takes part in: the costs' independent check."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from accel.cost import Cost

SPECIAL = {np.tanh, np.power, np.exp}


class Counted(np.ndarray):
    """Every NumPy function call with one of these among its arguments adds to `Counted.total`."""

    total: ClassVar[Cost] = Cost()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = (), **kwargs: Any) -> Any:
        assert method == "__call__"
        plain = [_plain(x) for x in inputs]
        targets = tuple(_plain(x) for x in out)
        result = getattr(ufunc, method)(*plain, **kwargs, **({"out": targets} if targets else {}))
        read = {_place(x): x.nbytes for x in plain if isinstance(x, np.ndarray)}
        flops = 2 * result.size * plain[0].shape[-1] if ufunc is np.matmul else result.size
        Counted.total += Cost(
            flops=0 if ufunc in SPECIAL else flops,
            special=result.size if ufunc in SPECIAL else 0,
            bytes_read=sum(read.values()),
            bytes_written=result.nbytes,
            bytes_write_allocate=0 if _place(result) in read else result.nbytes,
            calls=1,
        )
        return out[0] if out else np.asarray(result).view(Counted)


def _plain(x: Any) -> Any:
    return x.view(np.ndarray) if isinstance(x, Counted) else x


def _place(x: np.ndarray) -> tuple[Any, ...]:
    return x.__array_interface__["data"], x.shape, x.strides


def count(kernel: Any, *arrays: np.ndarray, **kwargs: Any) -> Cost:
    """Run the kernel on counted views of the arrays and return what it did."""
    Counted.total = Cost()
    kernel(*(x.view(Counted) if isinstance(x, np.ndarray) else x for x in arrays), **kwargs)
    return Counted.total
