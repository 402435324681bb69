import math

import numpy as np
import pytest
from machines import DETAILED, LAPTOP

import accel
from accel import elision
from accel.advice import LEAST_GAIN, Advice, advise_trace, rewritten
from accel.cost import Cost
from accel.rewrites import RULES, Situation

RULE = dict(RULES)
LARGE = accel.array_like(4_000_000, "float32")
WIDE = accel.array_like(4_000_000, "float64")
SMALL = accel.array_like(1_000, "float32")


def rewrites(rule, function, *arrays, machine=DETAILED, threads=1):
    return list(RULE[rule](Situation(accel.trace(function, *arrays), machine, threads)))


def calls(ops):
    """All but the time between calls, which depends on the machine's mood, and memory that is only reserved."""
    return [op for op in ops if op.name not in ("empty", "opaque")]


def totals(ops):
    """Name and cost of each call."""
    return [(op.name, op.cost) for op in calls(ops)]


def total(ops):
    return sum((op.cost for op in ops), Cost())


def same_as(function, rewrite, *arrays):
    """The rewrite makes exactly the calls that the trace of a function written by hand finds."""
    assert totals(rewrite.ops) == totals(accel.trace(function, *arrays).ops)


def advice_for(rule, function, *arrays, **options):
    found = advise_trace(accel.trace(function, *arrays), DETAILED, **options)
    return [advice for advice in found if advice.rule == rule]


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def polynomial(x):
    return ((x * 2.0 + 1.0) * x + 3.0) * x


class TestPromotion:
    def test_counts_are_those_of_the_function_with_a_python_float(self):
        def gate(x, c):
            return 0.5 * x * np.tanh(c * (x + 0.044715 * x**3))

        c = np.sqrt(2 / np.pi)
        [rewrite] = rewrites("no float64 promotion", lambda x: gate(x, c), LARGE)
        same_as(lambda x: gate(x, float(c)), rewrite, LARGE)
        assert "0.797885" in rewrite.change

    def test_an_array_constant_is_converted(self):
        def shifted(x, weights):
            return x * weights

        x, weights = accel.array_like((1000, 500), "float32"), accel.array_like(500, "float64")
        [rewrite] = rewrites("no float64 promotion", shifted, x, weights)
        same_as(shifted, rewrite, x, accel.array_like(500, "float32"))
        assert rewrite.change.startswith("weights.astype(np.float32)")

    @pytest.mark.parametrize(
        "function",
        [
            lambda x: x * 2.0,
            lambda x: x * np.float32(2),
            lambda x: x.astype(np.float64) * 2.0,
            lambda x: np.add(x, x, dtype="float64"),
        ],
    )
    def test_does_not_fire_without_a_float64_constant(self, function):
        assert rewrites("no float64 promotion", function, LARGE) == []

    def test_does_not_fire_on_float64_data_or_where_they_meet(self):
        half = np.float64(0.5)
        assert rewrites("no float64 promotion", lambda x: x * half, WIDE) == []

        def mixed(x, y):
            t = x * half
            t += y
            return t

        assert rewrites("no float64 promotion", mixed, LARGE, WIDE) == []


class TestPower:
    @pytest.mark.parametrize(
        ("exponent", "by_hand"),
        [
            (3, lambda x: x * x * x),
            (4, lambda x: (lambda y: y * y)(x * x)),
            (5, lambda x: (lambda y: y * y * x)(x * x)),
            (7.0, lambda x: (lambda y: y * y * y * x)(x * x)),
        ],
    )
    @pytest.mark.parametrize("x", [LARGE, SMALL, WIDE])
    def test_counts_are_those_of_the_products(self, exponent, by_hand, x):
        [rewrite] = rewrites("power as product", lambda x: x**exponent, x)
        same_as(by_hand, rewrite, x)

    def test_function_call_with_two_and_out(self):
        [rewrite] = rewrites("power as product", lambda x: np.power(x, 2), LARGE)
        same_as(lambda x: x * x, rewrite, LARGE)
        out = np.empty(1000, np.float32)
        [rewrite] = rewrites("power as product", lambda x, out: np.power(x, 3, out=out), np.ones_like(out), out)
        same_as(lambda x, out: np.multiply(np.multiply(x, x, out=out), x, out=out), rewrite, np.ones_like(out), out)

    def test_in_place(self):
        def cubed(x):
            np.power(x, 3, out=x)

        def by_hand(x):
            t = np.multiply(x, x)
            np.multiply(t, x, out=x)

        x = np.ones(1000, np.float32)
        [rewrite] = rewrites("power as product", cubed, x)
        same_as(by_hand, rewrite, x)

    @pytest.mark.parametrize("exponent", [2, 0.5, 2.5, -1, -2, 9, float("inf"), float("nan")])
    def test_does_not_fire_on_other_exponents(self, exponent):
        assert rewrites("power as product", lambda x: x**exponent, LARGE) == []

    def test_does_not_fire_on_integers_masks_or_array_exponents(self):
        mask, x = np.arange(1000) % 2 == 0, np.ones(1000, np.float32)
        assert rewrites("power as product", lambda x: x**3, accel.array_like(1000, "int64")) == []
        assert rewrites("power as product", lambda x, y: x**y, LARGE, LARGE) == []
        assert rewrites("power as product", lambda x: np.power(x, 3, where=mask, out=np.zeros_like(x)), x) == []

    def test_in_a_loop_all_of_a_place_are_one_rewrite(self):
        [rewrite] = rewrites("power as product", lambda x: [row**3 for row in x], np.ones((5, 100), np.float32))
        assert [op.name for op in calls(rewrite.ops)] == ["multiply"] * 10


class TestMemory:
    def test_named_temporaries_are_overwritten(self):
        def named(x, y):
            a = np.multiply(x, 2.0)
            b = np.add(a, y)
            return np.tanh(b)

        def by_hand(x, y):
            a = np.multiply(x, 2.0)
            np.add(a, y, out=a)
            return np.tanh(a, out=a)

        [rewrite] = rewrites("in place", named, LARGE, LARGE)
        same_as(by_hand, rewrite, LARGE, LARGE)
        assert sum(op.fresh_bytes for op in rewrite.ops) == 16_000_000

    def test_never_over_arguments_results_or_what_is_used_later(self):
        assert rewrites("in place", lambda x, y: np.add(x, y), LARGE, LARGE) == []
        assert rewrites("in place", lambda x: (lambda a: (a, np.tanh(a)))(np.add(x, 1.0)), LARGE) == []
        assert rewrites("in place", lambda x: (lambda a: np.add(np.tanh(a), a))(np.add(x, 1.0))[:0], LARGE) != []
        [rewrite] = rewrites("in place", lambda x: (lambda a: np.add(np.tanh(a), a))(np.add(x, 1.0)), LARGE)
        assert [op.in_place for op in rewrite.ops] == [False, False, True]  # tanh(a) needs memory: a is used again

    def test_not_where_shape_or_dtype_differ_or_another_view_is_read(self):
        assert rewrites("in place", lambda x: np.greater(np.add(x, 1.0), 0.0), LARGE) == []
        row = accel.array_like((4, 1000), "float32")
        assert rewrites("in place", lambda x: np.add(np.add(x[0], 1.0), x), row) == []
        assert rewrites("in place", lambda x: (lambda a: np.add(a, a[::-1]))(np.add(x, 1.0)), LARGE) == []

    def test_results_into_given_memory(self):
        [rewrite] = rewrites("out=", lambda x, y: x + y, LARGE, LARGE)
        assert sum(op.fresh_bytes for op in rewrite.ops) == 0
        [advice] = advice_for("out=", lambda x, y: x + y, LARGE, LARGE)
        assert advice.saves_bytes == 16_000_000
        assert rewrites("out=", lambda x: np.sort(x), LARGE) == []

    def test_strided_operands_are_copied_once(self):
        def strided(x):
            return (x[::8] * 2.0 + x[::8]) * x[::8]

        def by_hand(x):
            c = np.ascontiguousarray(x[::8])
            return (c * 2.0 + c) * c

        [rewrite] = rewrites("contiguous access", strided, LARGE)
        same_as(by_hand, rewrite, LARGE)

    def test_columns_become_rows_of_the_transpose(self):
        x = np.ones((50_000, 20))  # so long that the loop itself does not matter
        found = rewrites("contiguous access", lambda x: [x[:, j].sum() for j in range(20)], x)
        assert len(found) == 1
        same_as(lambda x: [row.sum() for row in np.ascontiguousarray(x.T)], found[0], x)

    def test_contiguous_operands_and_written_ones_are_left(self):
        matrix = accel.array_like((1000, 1000), "float32")
        assert rewrites("contiguous access", lambda x: x.T + x.T, matrix) == []
        assert rewrites("contiguous access", lambda x: x[:10] + 1.0, matrix) == []

        def updated(x):
            t = x[::2] * 2.0
            x[0] = 5.0
            x += 1.0
            return x[::2] + t

        assert rewrites("contiguous access", updated, np.ones(1000)) == []


class TestPasses:
    def test_blocks_do_the_same_work_without_full_temporaries(self):
        [rewrite] = rewrites("blocking", polynomial, LARGE)
        before = accel.trace(polynomial, LARGE)
        blocks = -(-4_000_000 // ((1 << 20) // 12 // 16 * 16))
        assert total(rewrite.ops).flops == before.cost.flops
        assert total(rewrite.ops).calls == 5 * blocks
        [advice] = advice_for("blocking", polynomial, LARGE)
        assert advice.predicted_gain > 1

    def test_counts_are_those_of_blocks_by_hand(self):
        def named(x):
            a = np.multiply(x, 2.0)
            return np.tanh(a)

        [rewrite] = rewrites("blocking", named, LARGE)
        rows = next(op for op in rewrite.ops if op.name == "tanh").results[0].shape[0]

        def by_hand(x):
            out, scratch = np.empty_like(x), np.empty(rows, np.float32)
            for start in range(0, len(x), rows):
                part = x[start : start + rows]
                t = scratch[: len(part)]
                np.multiply(part, 2.0, out=t)
                np.tanh(t, out=out[start : start + rows])
            return out

        same_as(by_hand, rewrite, LARGE)

    def test_reductions_along_other_axes_are_inside_a_block(self):
        def softmax(x):
            e = np.exp(x - x.max(axis=-1, keepdims=True))
            return e / e.sum(axis=-1, keepdims=True)

        [rewrite] = rewrites("blocking", softmax, accel.array_like((2000, 2000), "float32"))
        assert {op.name for op in rewrite.ops} >= {"maximum.reduce", "exp", "add.reduce", "divide"}

    def test_reductions_along_the_leading_axis_end_a_chain(self):
        matrix = accel.array_like((2000, 2000), "float32")
        assert rewrites("blocking", lambda x: (x - x.max(axis=0)).sum(), matrix) == []
        assert rewrites("blocking", lambda x: x - x.mean(), matrix) == []

    def test_does_not_fire_in_cache_alone_or_across_shifted_writes(self):
        assert rewrites("blocking", polynomial, SMALL) == []
        assert rewrites("blocking", lambda x: x * 2.0, LARGE) == []

        def shifted(x):
            t = x * 2.0
            t[1:] += t[:-1]
            return np.tanh(t)

        assert all("add" not in rewrite.where for rewrite in rewrites("blocking", shifted, LARGE))

    def test_one_compiled_pass_reads_and_writes_once(self):
        [rewrite] = rewrites("fusing", polynomial, LARGE)
        [op] = rewrite.ops
        assert (op.kind, op.cost.flops, op.cost.calls) == ("compiled", 5 * 4_000_000, 1)
        assert (op.cost.bytes_read, op.cost.bytes_written) == (16_000_000, 16_000_000)

    def test_special_functions_stay_with_numpy(self):
        [rewrite] = rewrites("fusing", lambda x: np.tanh(x * 2.0 + 1.0) * 0.5 + x, LARGE)
        assert [op.name for op in rewrite.ops] == ["fused", "tanh", "fused"]
        assert rewrites("fusing", lambda x: np.tanh(np.exp(x)), LARGE) == []

    def test_only_where_numba_is(self):
        from dataclasses import replace

        assert rewrites("fusing", polynomial, LARGE, machine=replace(DETAILED, numba_version=None)) == []


class TestFloat32:
    def test_counts_are_those_of_the_same_function_on_float32(self):
        def cubic(x):
            return np.tanh(x * x * x + x)

        [rewrite] = rewrites("float32", cubic, WIDE)
        same_as(cubic, rewrite, LARGE)
        assert "precision" in rewrite.note

    def test_products_too(self):
        a = accel.array_like((100, 200), "float64")
        b = accel.array_like((200, 300), "float64")
        [rewrite] = rewrites("float32", lambda a, b: a @ b, a, b)
        narrow = accel.array_like(a.shape, "float32"), accel.array_like(b.shape, "float32")
        same_as(lambda a, b: a @ b, rewrite, *narrow)

    def test_does_not_fire_on_float32_or_on_a_mixture(self):
        assert rewrites("float32", polynomial, LARGE) == []
        assert rewrites("float32", lambda x, y: x * y, LARGE, WIDE) == []
        assert rewrites("float32", lambda x: x.astype(np.float32) * 2, WIDE) == []


def rows_loop(x, y):
    out = np.empty_like(x)
    for i in range(len(x)):
        out[i] = x[i] * 2.0 + y[i]
    return out


class TestBatching:
    x = np.arange(2000.0).reshape(20, 100)

    def test_rows(self):
        def by_hand(x, y):
            out = np.empty_like(x)
            return np.add(x * 2.0, y, out=out)

        [rewrite] = rewrites("batching", rows_loop, self.x, self.x + 1)
        same_as(by_hand, rewrite, self.x, self.x + 1)

    def test_sums(self):
        [rewrite] = rewrites("batching", lambda x: [row.sum() for row in x], self.x)
        same_as(lambda x: x.sum(axis=1), rewrite, self.x)

    def test_products_that_share_a_factor_are_one(self):
        b, stack = np.ones((30, 4)), np.ones((20, 10, 30))
        [rewrite] = rewrites("batching", lambda a, b: [m @ b for m in a], stack, b)
        [op] = calls(rewrite.ops)
        assert op.product == (1, 200, 30, 4)
        assert op.cost.flops == 2 * 200 * 30 * 4
        [rewrite] = rewrites("batching", lambda a, v: [a @ w for w in v], np.ones((8, 30)), np.ones((20, 30)))
        assert rewrite.ops[0].product == (1, 20, 30, 8)
        [rewrite] = rewrites(
            "batching", lambda a, b: [m @ n for m, n in zip(a, b, strict=True)], stack, np.ones((20, 30, 4))
        )
        assert rewrite.ops[0].product == (20, 10, 30, 4)

    def test_does_not_fire_where_iterations_depend_on_each_other(self):
        def running(x):
            for i in range(1, len(x)):
                np.add(x[i], x[i - 1], out=x[i])

        def accumulated(x):
            total = np.zeros(100)
            for row in x:
                total += row
            return total

        assert rewrites("batching", running, self.x.copy()) == []
        assert rewrites("batching", accumulated, self.x) == []

    def test_does_not_fire_on_few_repeats_or_uneven_steps(self):
        assert rewrites("batching", lambda x: [np.tanh(x[i]) for i in range(3)], self.x) == []
        assert rewrites("batching", lambda x: [np.tanh(x[i]) for i in (0, 1, 3, 4, 8, 9)], self.x) == []


class TestProducts:
    @pytest.mark.parametrize(
        ("subscripts", "shapes", "text", "by_hand"),
        [
            ("ik,kj->ij", ((30, 40), (40, 50)), "a @ b", lambda a, b: a @ b),
            ("ki,kj->ij", ((40, 30), (40, 50)), "a.T @ b", lambda a, b: a.T @ b),
            ("ik,jk->ij", ((30, 40), (50, 40)), "a @ b.T", lambda a, b: a @ b.T),
            ("ij,j->i", ((30, 40), (40,)), "a @ b", lambda a, b: a @ b),
            ("bik,bkj->bij", ((5, 30, 40), (5, 40, 50)), "a @ b", lambda a, b: a @ b),
            (
                "ijk,kl->ijl",
                ((5, 6, 7), (7, 8)),
                "np.tensordot(a, b, ([2], [0]))",
                lambda a, b: np.tensordot(a, b, ([2], [0])),
            ),
        ],
    )
    def test_einsum(self, subscripts, shapes, text, by_hand):
        arrays = [np.ones(shape) for shape in shapes]
        [rewrite] = rewrites("BLAS for einsum", lambda a, b: np.einsum(subscripts, a, b), *arrays)
        assert rewrite.change.startswith(text)
        [new], [hand] = calls(rewrite.ops), calls(accel.trace(by_hand, *arrays).ops)
        assert new.product == hand.product
        assert new.cost.flops == hand.cost.flops
        assert np.allclose(by_hand(*arrays), np.einsum(subscripts, *arrays))

    @pytest.mark.parametrize(
        ("subscripts", "shapes"),
        [
            ("ij,ij->ij", ((5, 5), (5, 5))),
            ("ab,b->b", ((5, 5), (5,))),
            ("ii,ij->j", ((5, 5), (5, 5))),
            ("ik,kj->ji", ((5, 5), (5, 5))),
            ("ij,kl->il", ((5, 5), (5, 5))),
            ("i,j->ij", ((5,), (5,))),
        ],
    )
    def test_einsum_that_is_no_product(self, subscripts, shapes):
        arrays = [np.ones(shape) for shape in shapes]
        assert rewrites("BLAS for einsum", lambda a, b: np.einsum(subscripts, a, b), *arrays) == []

    def test_einsum_of_integers(self):
        a = np.ones((5, 5), int)
        assert rewrites("BLAS for einsum", lambda a, b: np.einsum("ik,kj->ij", a, b), a, a) == []

    @staticmethod
    def loops(combine):
        def product(a, b):
            c = np.empty((len(a), b.shape[1]))
            for i in range(len(a)):
                for j in range(b.shape[1]):
                    c[i, j] = combine(a[i, k] * b[k, j] for k in range(a.shape[1]))
            return c

        return product

    def test_loops_are_checked_against_the_product(self):
        a, b = np.random.default_rng(0).random((2, 24, 24))
        found = accel.advise(self.loops(sum), a, b, machine=DETAILED)
        assert [advice.change for advice in found if advice.rule == "BLAS for loops"] == [
            "a @ b instead of loops over single elements"
        ]
        found = accel.advise(self.loops(max), a, b, machine=DETAILED)
        assert [advice for advice in found if advice.rule == "BLAS for loops"] == []

    def test_threads(self):
        a = accel.array_like((512, 512), "float32")
        [advice] = advice_for("threads", lambda a: a @ a, a)
        assert advice.change.startswith("4 BLAS threads instead of 1")
        assert advice.predicted_gain > 2
        assert advice_for("threads", lambda a: a @ a, a, threads=4) == []
        assert advice_for("threads", lambda a: a + a, a) == []


class TestAdvise:
    def test_is_ranked_and_worthwhile(self):
        found = advise_trace(accel.trace(gelu, LARGE), DETAILED)
        gains = [advice.predicted_gain for advice in found]
        assert gains == sorted(gains, reverse=True)
        assert min(gains) >= LEAST_GAIN
        assert {"power as product", "no float64 promotion"} <= {advice.rule for advice in found}

    def test_is_the_same_every_time_and_round_trips(self):
        traced = accel.trace(gelu, LARGE)
        found = advise_trace(traced, DETAILED)
        assert found == advise_trace(traced, DETAILED)
        assert Advice.from_json(found[0].to_json()) == found[0]

    def test_nothing_to_say(self):
        assert accel.advise(np.sort, SMALL, machine=DETAILED) == ()

    def test_gain_is_that_of_the_prices(self):
        from accel.prediction import predict_trace

        traced = accel.trace(gelu, LARGE)
        [rewrite] = RULE["power as product"](Situation(traced, DETAILED))
        [advice] = [a for a in advise_trace(traced, DETAILED) if a.rule == "power as product"]
        after = predict_trace(rewritten(traced, rewrite), DETAILED).seconds
        assert advice.predicted_seconds == after
        assert advice.predicted_gain == predict_trace(traced, DETAILED).seconds / after

    def test_an_uncalibrated_machine_is_refused(self):
        with pytest.raises(ValueError, match="not measured"):
            accel.advise(np.add, LARGE, LARGE, machine=LAPTOP)


def everything(x):
    """Calls that each of the rules would look at."""
    rows = [row * 2 + row for row in x[:6]]
    return (x * x + x) * x, x[::2] + x[::2], np.einsum("ij,kj->ik", x, x), x @ x.T, x**3, rows


@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "i8", "f2", "f4", ">f4", "f8", "g", "F", "D"])
def test_advice_for_any_dtype(dtype):
    """Not every dtype has a peak of its own: what no peak is known for is not fused."""
    found = advise_trace(accel.trace(everything, np.ones((40, 30), dtype)), DETAILED)
    assert all(math.isfinite(advice.predicted_gain) and advice.predicted_gain >= LEAST_GAIN for advice in found)
    if np.dtype(dtype).str[1:] not in ("f4", "f8"):
        assert "fusing" not in {advice.rule for advice in found}


def rational(x):
    return (x * x + x) * x - x


@pytest.mark.skipif(not elision.references(), reason="NumPy elides nothing here")
@pytest.mark.parametrize("function", [polynomial, rational], ids=["numbers", "arrays"])
@pytest.mark.parametrize("size", [10_000, 40_000, 400_000])
def test_float32_elides_what_numpy_elides(function, size):
    """Half the memory may be too little for NumPy to take it, and a Python number never fits a float32 temporary."""
    wide, narrow = (accel.array_like(size, dtype) for dtype in ("float64", "float32"))
    [rewrite] = rewrites("float32", function, wide)
    same_as(function, rewrite, narrow)
    by_hand = accel.trace(function, narrow).ops

    def memory(ops):
        return [(op.fresh_bytes, op.reused_bytes, op.in_place, op.elided) for op in calls(ops)]

    assert memory(rewrite.ops) == memory(by_hand)
    places = [[array.buffer for op in calls(ops) for array in (*op.operands, *op.results)]
              for ops in (rewrite.ops, by_hand)]  # fmt: skip
    assert (
        len(set(zip(*places, strict=True))) == len(set(places[0])) == len(set(places[1]))
    )  # alike but for the numbers


def test_what_out_names_is_no_elision():
    def function(x):
        t = x * 2.0
        t += 1.0
        return np.multiply(t, x, out=t)

    x = np.ones(400_000)
    assert [(op.in_place, op.elided) for op in calls(accel.trace(function, x).ops)] == [
        (False, False), (True, False), (True, False)
    ]  # fmt: skip
    [rewrite] = rewrites("float32", function, WIDE)
    same_as(function, rewrite, LARGE)
