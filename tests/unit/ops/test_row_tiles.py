"""The probe must notice kernels that disagree, whatever the BLAS of this machine happens to do."""

from __future__ import annotations

import torch

from sglang.ops.row_tiles import agreeing_tiles, tiled

X = torch.randn(16, 3, generator=torch.Generator().manual_seed(0))


def test_disagreeing_counts_are_dropped():
    def product(rows):
        return rows * 2 + (0.001 if rows.shape[0] in (1, 4) else 0.0)

    assert agreeing_tiles(product, X, (1, 2, 4, 8, 16)) == (2, 8, 16)


def test_a_kernel_that_depends_on_the_place_of_a_row_is_dropped():
    def product(rows):
        return rows + torch.arange(rows.shape[0])[:, None] if rows.shape[0] == 16 else rows

    assert agreeing_tiles(product, X, (1, 4, 8, 16)) == (1, 4, 8)


def test_single_rows_are_the_last_resort():
    def product(rows):
        return rows + torch.arange(rows.shape[0])[:, None] + rows.shape[0]

    assert agreeing_tiles(product, X, (4, 16)) == (1,)


def test_tiled_products_use_only_the_given_counts():
    seen = []

    def product(rows):
        seen.append(rows.shape[0])
        return rows * 2

    x = torch.randn(21, 3, generator=torch.Generator().manual_seed(1))
    assert torch.equal(tiled(product, x, 3, (4, 8)), x * 2)
    assert seen == [8, 8, 8]
    seen.clear()
    assert torch.equal(tiled(product, x[:3], 3, (4, 8)), x[:3] * 2)
    assert seen == [4]
