"""Every family against transformers in float32 on tiny random checkpoints, and bit for bit against itself."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
import transformers

from sglang.models.families.gemma3 import Gemma3ForCausalLM
from sglang.models.registry import ARCHITECTURES, model_class
from unit.models.tiny import FAMILIES, SHAPE, Runner, load_model, load_tiny, prompt, random_model, tiny_config


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_equal_transformers(family, reference):
    """100 positions: longer than the windows (8), a tile, and the original context of the scaled rotaries."""
    oracle, folder = reference(family)
    ids = prompt(100)
    want = oracle(torch.tensor([ids])).logits[0].float()
    # With no room beyond the original context longrope keeps its short factors, as transformers does for 100 tokens.
    model = load_tiny(folder, **({"context_length": 256} if family == "phi3-longrope" else {}))
    got = model.logits(Runner(model).step({0: ids})[0])
    assert got.dtype == torch.float32
    assert want.std() > 0.1, "the oracle must have something to say"
    assert (got - want).abs().max() < 1e-4


@pytest.mark.parametrize("family", FAMILIES)
def test_decoding_gives_the_bits_of_prefill(family, reference):
    model = load_tiny(reference(family)[1])
    ids = prompt(60, seed=1)
    whole = Runner(model).step({0: ids})[0]
    stepped = Runner(model, seed=1)
    pieces = [stepped.step({3: ids[:11]})[3]]
    pieces += [stepped.step({3: [token]})[3] for token in ids[11:]]
    assert torch.equal(torch.cat(pieces), whole)


@pytest.mark.parametrize("family", ["llama", "gemma2", "gemma3", "phi3"])
def test_company_and_chunks_change_no_bit(family, reference):
    """Eight requests alone, and cut into chunks that share steps with the others' prefills and decodes."""
    model = load_tiny(reference(family)[1])
    lengths = [5, 17, 33, 64, 65, 90, 128, 140]
    prompts = {row: prompt(n, seed=row) for row, n in enumerate(lengths)}
    alone = {row: model.logits(Runner(model).step({row: ids})[row]) for row, ids in prompts.items()}
    shared = Runner(model, seed=2)
    sizes = iter([1, 7, 40, 1, 2, 64, 13, 1, 31, 5] * 50)
    pieces: dict[int, list[torch.Tensor]] = {row: [] for row in prompts}
    while waiting := [row for row, ids in prompts.items() if shared.lengths[row] < len(ids)]:
        start = next(sizes) % len(waiting)
        order = waiting[start:] + waiting[:start]
        step = {row: prompts[row][shared.lengths[row] :][: next(sizes)] for row in order}
        for row, hidden in shared.step(step).items():
            pieces[row].append(hidden)
    for row, parts in pieces.items():
        assert torch.equal(model.logits(torch.cat(parts)), alone[row]), row


def test_longrope_uses_long_factors_where_the_context_allows_more(reference):
    """The choice is the server's, not the sequence's: 300 tokens agree with transformers, which picks by length."""
    oracle, folder = reference("phi3-longrope")
    model = load_tiny(folder)  # 512 > 256
    ids = prompt(300)
    want = oracle(torch.tensor([ids])).logits[0]
    assert (model.logits(Runner(model).step({0: ids})[0]) - want).abs().max() < 1e-4


def test_text_part_of_a_seeing_gemma(tmp_path):
    text = {key: value for key, value in FAMILIES["gemma3"][1].items() if key != "pad_token_id"}
    vision = {
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 28,
        "patch_size": 14,
    }
    oracle = random_model(
        transformers.Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4, image_token_index=127)
    )
    oracle.save_pretrained(tmp_path)
    config = tiny_config(tmp_path)
    assert config.architecture == "Gemma3ForConditionalGeneration"
    model = load_model(config, model_class(config.architecture))
    ids = [token for token in prompt(50) if token < 127]
    want = oracle(input_ids=torch.tensor([ids]), token_type_ids=torch.zeros(1, len(ids), dtype=torch.int64)).logits[0]
    assert (model.logits(Runner(model).step({0: ids})[0]) - want).abs().max() < 1e-4


def test_old_gemma3_config_names_the_sliding_base_by_itself(reference):
    """Configs from before ``rope_parameters``: the two spellings must build the same tables."""
    config = tiny_config(reference("gemma3")[1])
    old = {key: value for key, value in config.hf.items() if key not in ("rope_parameters", "layer_types")}
    old |= {
        "rope_theta": 100000.0,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        "rope_local_base_freq": 10000.0,
        "sliding_window_pattern": 3,
    }
    ids = prompt(40)
    new_model, old_model = (load_model(c, Gemma3ForCausalLM) for c in (config, replace(config, hf=old)))
    assert torch.equal(Runner(old_model).step({0: ids})[0], Runner(new_model).step({0: ids})[0])


def test_half_precision_keeps_the_law(reference):
    """bfloat16 weights, activations and KV: near float32, and the same bits in chunks."""
    oracle, folder = reference("llama")
    model = load_model(replace(tiny_config(folder), dtype="bfloat16"), model_class("LlamaForCausalLM"))
    ids = prompt(40)
    runner = Runner(model)
    hidden = runner.step({0: ids})[0]
    assert hidden.dtype == torch.bfloat16
    want = oracle(torch.tensor([ids])).logits[0]
    got = model.logits(hidden)
    assert (got - want).abs().mean() < 0.05 * want.std()
    chunked = torch.cat([runner.step({1: ids[i : i + 9], 2: ids[:1]})[1] for i in range(0, 40, 9)])
    assert torch.equal(chunked, hidden)


def test_every_architecture_can_be_imported():
    for architecture in ARCHITECTURES:
        assert model_class(architecture).__name__ == architecture


def test_unknown_architecture_lists_the_choices():
    with pytest.raises(ValueError, match=r"'GPT2LMHeadModel' is not supported; supported: Gemma2.*Qwen3ForCausalLM"):
        model_class("GPT2LMHeadModel")


def test_unknown_activation_is_refused(reference):
    config = tiny_config(reference("llama")[1])
    with pytest.raises(ValueError, match=r"'relu' is not supported.*silu"):
        load_model(replace(config, hf={**config.hf, "hidden_act": "relu"}), model_class("LlamaForCausalLM"))


def test_bad_layer_types_are_refused(reference):
    config = tiny_config(reference("gemma2")[1])
    hf = json.loads(json.dumps(config.hf)) | {"layer_types": ["chunked_attention"] * SHAPE["num_hidden_layers"]}
    with pytest.raises(ValueError, match=r"layer_types.*chunked_attention"):
        load_model(replace(config, hf=hf), model_class("Gemma2ForCausalLM"))


@pytest.mark.parametrize("family", ["gemma2", "qwen2-sliding"])
def test_layers_slide_by_the_family_rule_where_the_config_has_no_list(family, reference):
    config = tiny_config(reference(family)[1])
    bare = replace(config, hf={key: value for key, value in config.hf.items() if key != "layer_types"})
    assert len(bare.hf) < len(config.hf)
    ids = prompt(40)
    listed, ruled = (Runner(load_model(c, model_class(c.architecture))).step({0: ids})[0] for c in (config, bare))
    assert torch.equal(ruled, listed)
