"""Images in messages: from each wire format to the engine, where a model is set up to take them."""

import base64
import shutil
import struct
from dataclasses import replace

import pytest
from completions_server import StandIn
from generate_server import SglangStandIn
from hypothesis import given
from hypothesis import strategies as st
from remote_engines import SETTINGS, assert_valid, events_of, remote_over

from gateway.errors import InvalidField, SettingsError
from gateway.setting_sources import load
from gateway.wire.anthropic.blocks import read_messages as read_anthropic
from gateway.wire.field_reader import FieldReader
from gateway.wire.images import num_pixels
from gateway.wire.openai.messages import read_messages as read_openai
from gateway.wire.responses.items import read_input
from runtime.errors import RequestRefused
from runtime.models.random_model import RandomModelSettings, ensure_random_model
from runtime.request import MAX_IMAGES, Image, Message
from runtime.text.tokenizer import load_tokenizer


def png(width=1, height=1, chunks=b""):
    """A PNG up to where its pixels begin, as a data URL; `chunks` stand before them."""
    size = b"\0\0\0\rIHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0) + b"\0" * 4
    return data_url(b"\x89PNG\r\n\x1a\n" + size + chunks + b"\0\0\0\0IDAT\0\0\0\0")


def data_url(content):
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


PIXEL = png()
SHOWN = Message("user", "What is this?", images=(Image(PIXEL, 8, 1),))
"""Two words, the image, and the rest."""
TEMPLATE = """
{%- if tools %}{{- '<|im_start|>system\n' + tools | tojson + '<|im_end|>\n' }}{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\n' }}
    {%- if message.content is string %}
        {{- message.content }}
    {%- else %}
        {%- for part in message.content %}
            {{- '[image]' if part.type == 'image' else part.text }}
        {%- endfor %}
    {%- endif %}
    {{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}
"""


@pytest.fixture(scope="module")
def seeing(tmp_path_factory):
    """The tokenizer of a model whose template has a place for images."""
    folder = tmp_path_factory.mktemp("seeing")
    plain = ensure_random_model(folder, RandomModelSettings(hidden_size=64, num_layers=2))
    shutil.copytree(plain, folder / "model")
    (folder / "model" / "chat_template.jinja").write_text(TEMPLATE)
    return load_tokenizer(folder / "model", model_id="remote")


def openai(url):
    parts = [
        {"type": "text", "text": "What is "},
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "text", "text": "this?"},
    ]
    return read_openai([{"role": "user", "content": parts}], FieldReader())


def responses(url):
    parts = [
        {"type": "input_text", "text": "What is "},
        {"type": "input_image", "image_url": url, "detail": "auto"},
        {"type": "input_text", "text": "this?"},
    ]
    return read_input([{"role": "user", "content": parts}], None, FieldReader())


def anthropic(url):
    if url.startswith("data:"):
        media_type, data = url.removeprefix("data:").split(";base64,")
        source = {"type": "base64", "media_type": media_type, "data": data}
    else:
        source = {"type": "url", "url": url}
    blocks = [
        {"type": "text", "text": "What is "},
        {"type": "image", "source": source},
        {"type": "text", "text": "this?"},
    ]
    return read_anthropic([{"role": "user", "content": blocks}], None, FieldReader())


@pytest.mark.parametrize("read", [openai, responses, anthropic])
def test_every_wire_format_knows_where_an_image_stands(read):
    assert read(PIXEL) == (SHOWN,)


@pytest.mark.parametrize("read", [openai, responses, anthropic])
@pytest.mark.parametrize(
    "url",
    ["http://metadata.internal/latest", "https://example.org/a.png", "file:///etc/passwd", "data:text/html;base64,AA=="],
)  # fmt: skip
def test_nothing_is_fetched_from_an_address(read, url):
    with pytest.raises(InvalidField, match="must be a data URL"):
        read(url)


@pytest.mark.parametrize(
    "content",
    [b"%!PS-Adobe-3.0 EPSF-3.0", b"\x89PNG\r\n\x1a\n", b"GIF89a\x01", b"II*\0", b"RIFF\0\0\0\0WEBPVP8X", b"\xff\xd8\xff\xda"],
)  # fmt: skip
def test_what_is_called_an_image_is_one(content):
    """Engines read an image by what it is; some formats run programs."""
    with pytest.raises(InvalidField, match="whole PNG") as refused:
        openai(data_url(content))
    assert refused.value.param == "messages[0].content[1].image_url.url"


def test_an_image_is_base64():
    with pytest.raises(InvalidField, match="base64"):
        openai(f"{PIXEL.rstrip('=')}A")


GIF = b"GIF89a%s\x80\0\0" + b"\0" * 6 + b"\x21\xf9\x04\0\0\0\0\0\x2c\0\0\0\0%s\0"
JPEG = b"\xff\xd8\xff\xe0\0\x04ab\xff\xff\xc2\0\x0b\x08\0\x13\0\x25\x01\0\0\0\xff\xda\0\x02"
SIZE = struct.pack("<HH", 37, 19)


@pytest.mark.parametrize(
    "content",
    [
        GIF % (SIZE, SIZE),
        GIF % (b"\1\0\1\0", SIZE),
        JPEG,
        b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a" + SIZE,
        b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + struct.pack("<I", 36 | 18 << 14),
        b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x24\0\0\x12\0\0",
    ],
)
def test_headers_tell_how_large_an_image_is(content):
    """Files that Pillow had written were read so, too."""
    assert num_pixels(content) == 37 * 19
    assert {num_pixels(content[:end]) for end in range(len(content) - 2)} == {None}


def test_of_two_sizes_the_larger_counts():
    another = b"\0\0\0\rIHDR" + struct.pack(">IIBBBBB", 9_000, 9_000, 8, 2, 0, 0, 0) + b"\0" * 4
    ((image,),) = [message.images for message in openai(png(chunks=another))]
    assert image.num_pixels == 81_000_000


@pytest.mark.parametrize("kind", [0x00, 0x01, *range(0xD0, 0xDA), 0xC8, 0xDE, 0xF0])
def test_a_jpeg_has_no_marker_whose_length_readers_do_not_read(kind):
    """Pillow reads on right behind `FF D0`. If two bytes are skipped there, it sees a larger size in them."""
    assert num_pixels(JPEG[:2] + b"\xff\xfe\0\2" + JPEG[2:]) == 37 * 19
    assert num_pixels(JPEG[:2] + b"\xff" + bytes([kind]) + b"\0\2" + JPEG[2:]) is None


@pytest.mark.parametrize("extension", [b"\xf9\0", b"\xff\0", b"\xff\x0bNETSCAPE2.0\0"])
def test_an_extension_of_a_gif_has_its_blocks(extension):
    """Pillow skips what follows an extension without blocks: a small picture, with a larger one after it."""
    header, picture = (GIF % (SIZE, SIZE))[:19], b"\x2c" + b"\0" * 4 + SIZE + b"\0"
    assert num_pixels(header + b"!\xf9\4\0\0\0\0\0" + picture) == 37 * 19
    assert num_pixels(header + b"!\xff\x0bNETSCAPE2.0\3\1\0\0\0" + picture) == 37 * 19
    assert num_pixels(header + b"!" + extension + picture) is None


@given(
    begin=st.sampled_from([b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF\0\0\0\0WEBPVP8 "]), rest=st.binary()
)  # fmt: skip
def test_any_bytes_have_a_size_or_none(begin, rest):
    pixels = num_pixels(begin + rest)
    assert pixels is None or pixels > 0


@pytest.mark.parametrize(
    ("images", "choices", "reason"),
    [
        ((Image(PIXEL, 0, 1),) * (MAX_IMAGES + 1), 1, "images, but at most"),
        ((Image(PIXEL, 0, 3_600_000_000),), 1, "pixels together"),
        ((Image("x" * 4_000_000, 0, 1),), 32, "characters for all answers"),
    ],
)
async def test_what_images_take_of_an_engine_is_bounded(seeing, images, choices, reason):
    async with remote_over(seeing, settings=replace(SETTINGS, takes_images=True)) as remote:
        shown = Message("user", "What?", images=images)
        with pytest.raises(RequestRefused, match=reason) as refused:
            await events_of(remote, remote.request(messages=(shown,), num_choices=choices))
        assert refused.value.parameter == "messages"


def test_only_a_user_shows_images():
    part = {"type": "input_image", "image_url": PIXEL}
    with pytest.raises(InvalidField, match="only a user can"):
        read_input([{"role": "developer", "content": [part]}], None, FieldReader())
    with pytest.raises(InvalidField, match="image_url"):
        read_openai(
            [{"role": "system", "content": [{"type": "image_url", "image_url": {"url": PIXEL}}]}],
            FieldReader(),
        )


@pytest.mark.parametrize("detail", ["low", [], {"a": 1}], ids=str)
def test_any_other_detail_has_no_effect_and_is_said(detail):
    image = {"url": PIXEL, "detail": detail}
    reader = FieldReader()
    [message] = read_openai(
        [{"role": "user", "content": [{"type": "image_url", "image_url": image}]}], reader
    )
    assert len(message.images) == 1
    assert reader.ignored == ("messages[].content[].image_url.detail",)


def test_the_template_writes_the_place_of_an_image(seeing):
    ids = seeing.chat_template.token_ids([SHOWN])
    assert "What is [image]this?" in seeing.tokenizer.decode(ids)


async def test_a_model_that_is_not_set_up_for_images_refuses_them(text):
    async with remote_over(text) as remote:
        with pytest.raises(RequestRefused, match="engine_images"):
            await events_of(remote, remote.request(messages=(SHOWN,)))


@pytest.mark.parametrize(("kind", "stand_in_of"), [("vllm", StandIn), ("sglang", SglangStandIn)])
async def test_an_engine_gets_token_ids_and_images_and_each_token_is_verified(seeing, kind, stand_in_of):
    """Also where it goes on after a token that was refused."""
    stand_in = stand_in_of(seeing)
    settings = replace(SETTINGS, takes_images=True)
    async with remote_over(seeing, stand_in, kind=kind, settings=settings) as remote:
        lookup = await remote.grammar(parallel=False)
        stand_in.writes, stand_in.num_faults = {12: seeing.vocabulary.tokens.index(b"\0")}, 1
        request = remote.request(lookup, messages=(SHOWN,))
        (finished,) = assert_valid(await events_of(remote, request), request)
        assert finished.stats.num_refused_tokens == 1
        sent = [body.get("generate") or body["sglang"] for body in stand_in.requests]
        assert len(sent) == 2
        for body in sent:
            shown = body.get("content_parts") or body["image_data"]
            assert shown in ([{"type": "image_url", "url": PIXEL}], [PIXEL])
            assert "[image]" in seeing.tokenizer.decode(body.get("token_ids") or body["input_ids"])


@pytest.mark.parametrize("engine", ["llama_server", "vllm"])
def test_only_engines_that_take_images_are_set_up_for_them(tmp_path, engine):
    config = tmp_path / "callgate.toml"
    config.write_text(
        f'[[models]]\nmodel = "tiny"\nengine = "{engine}"\nengine_url = ["http://a:1"]\nengine_images = true\n'
    )
    if engine == "vllm":
        assert load(environment={}, config=config).models[0].engine_images
    else:
        with pytest.raises(SettingsError, match=r"engine_images.* only vllm, vllm_stock, sglang"):
            load(environment={}, config=config)
