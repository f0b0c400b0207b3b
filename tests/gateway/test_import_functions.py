"""`callgate tools import` of Python functions."""

import json
import sys
from functools import partial

import pytest
from pydantic import TypeAdapter
from pydantic_core import ArgsKwargs
from source_server import printed

from compiler import compile_schema

SOURCE = '''
from decimal import Decimal
from typing import Annotated, Literal
from pydantic import BaseModel, Field

class Address(BaseModel):
    """Where a parcel goes."""
    city: str
    zip: Annotated[str, Field(pattern=r"^[0-9]{5}$")]

async def ship(order: int, to: Address, speed: Literal["slow", "fast"] = "slow"):
    """Ship an order.

    The parcel leaves today.

    Args:
        order: Number of the order.
        to: Where it goes.
    """

class Desk:
    @staticmethod
    def call(number: Annotated[str, Field(max_length=5, description="Whom.")]):
        """Call somebody."""

class Card(BaseModel):
    kind: Literal["card"] = "card"
    number: Annotated[str, Field(pattern=r"^[0-9]{4}$")]

class Account(BaseModel):
    kind: Literal["account", "savings"] = "account"
    iban: str

def pay(method: Annotated[Card | Account, Field(discriminator="kind")]): ...

def charge(amount: Annotated[Decimal, Field(gt=0, max_digits=6, decimal_places=2)], rate: Decimal = Decimal(1)): ...

def weigh(tonnes: Annotated[Decimal, Field(max_digits=400, decimal_places=1)],
          share: Annotated[Decimal, Field(max_digits=2, decimal_places=3)],
          tiny: Annotated[Decimal, Field(decimal_places=400)]): ...

def anything(*args): ...
def strange(x: type(ship)): ...
VALUE = 3
'''


@pytest.fixture
def run(run, tmp_path, monkeypatch):
    """Runs `callgate tools import` where there is the module `shop_functions`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    (tmp_path / "shop_functions.py").write_text(SOURCE)
    yield partial(run, "tools", "import")
    sys.modules.pop("shop_functions", None)


def test_functions_and_models_become_tools(run):
    toolset = printed(
        run("shop_functions:ship", "shop_functions:Desk.call", "shop_functions:Address", "--print")
    )
    assert toolset["name"] == "shop_functions"
    ship, call, address = toolset["tools"]
    assert [tool["name"] for tool in toolset["tools"]] == ["ship", "call", "Address"]
    assert ship["description"] == "Ship an order.\n\nThe parcel leaves today."
    properties = ship["inputSchema"]["properties"]
    assert properties["order"] == {"type": "integer", "description": "Number of the order."}
    assert properties["to"]["description"] == "Where it goes."
    assert call["inputSchema"]["properties"]["number"]["description"] == "Whom."
    assert address["description"] == "Where a parcel goes."
    assert ship["_meta"]["callgate/source"] == {"object": "ship", "from": "python shop_functions"}
    compiled = compile_schema(ship["inputSchema"])
    assert compiled.accepts('{"order":1,"to":{"city":"Ulm","zip":"12345"}}')
    assert not compiled.accepts('{"order":1,"to":{"city":"Ulm","zip":"1234"}}')
    assert not compiled.accepts('{"order":1,"to":{"city":"Ulm","zip":"12345"},"speed":"none"}')


@pytest.mark.parametrize("name", ["anything", "strange", "VALUE"])
def test_what_cannot_be_a_tool_is_told(run, name):
    result = run(f"shop_functions:{name}", "shop_functions:ship", "--print")
    assert result.exit_code == 1
    assert f"tool '{name}'" in result.stderr
    toolset = printed(run(f"shop_functions:{name}", "shop_functions:ship", "--print", "--skip-refused"))
    assert [tool["name"] for tool in toolset["tools"]] == ["ship"]


def test_calls_of_a_union_have_the_discriminator_without_which_pydantic_refuses_them(run):
    [tool] = printed(run("shop_functions:pay", "--print"))["tools"]
    compiled = compile_schema(tool["inputSchema"], objects="closed")
    assert list(compiled.report.warnings) == []
    validate = TypeAdapter(sys.modules["shop_functions"].pay).validate_python
    card, savings = {"kind": "card", "number": "1234"}, {"kind": "savings", "iban": "x"}
    for method in (card, savings):
        text = json.dumps({"method": method})
        assert compiled.accepts(text)
        validate(ArgsKwargs((), json.loads(text)))
    for method in ({"number": "1234"}, {"iban": "x"}, {**card, "iban": "x"}, {**savings, "number": "1234"}):
        assert not compiled.accepts(json.dumps({"method": method}))


def test_decimals_are_numbers_with_the_digits_that_pydantic_takes(run):
    [tool] = printed(run("shop_functions:charge", "--print"))["tools"]
    compiled = compile_schema(tool["inputSchema"], objects="closed")
    charge = TypeAdapter(sys.modules["shop_functions"].charge).validate_python
    for amount in ("9999.99", "0.01", "12"):
        assert compiled.accepts(f'{{"amount": {amount}}}')
        charge(ArgsKwargs((), {"amount": float(amount)}))
    for amount in ("10000", "0.001", "0", "-1", "1e5", '"12"', '"twelve"'):
        assert not compiled.accepts(f'{{"amount": {amount}}}')
    assert compiled.accepts('{"amount": 1, "rate": -3.25}')
    assert not compiled.accepts('{"amount": 1, "rate": "low"}')


def test_bounds_of_a_decimal_that_no_double_holds_are_left_out(run):
    [tool] = printed(run("shop_functions:weigh", "--print"))["tools"]
    compiled = compile_schema(tool["inputSchema"], objects="closed")
    assert compiled.accepts('{"tonnes": 12.5, "share": -0.099, "tiny": 0.5}')
    assert not compiled.accepts('{"tonnes": 12.55, "share": 0.05, "tiny": 0.5}')
    assert not compiled.accepts('{"tonnes": 12.5, "share": 0.1, "tiny": 0.5}')


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("shop_functions",), "module:name"),
        (("no_such_module:f",), "ModuleNotFoundError"),
        (("shop_functions:nothing",), "AttributeError"),
        (("shop_functions:ship", "--mcp", "http://x"), "name one source"),
        (("shop_functions:ship", "--tag", "x"), "are for --openapi"),
    ],
)
def test_what_is_no_source_is_told(run, arguments, message):
    result = run(*arguments)
    assert result.exit_code == 1
    assert message in result.stderr


@pytest.mark.parametrize(
    ("module", "arguments", "extra"),
    [
        ("mcp.client", ("--mcp", "http://x/mcp"), "mcp"),
        ("docstring_parser", ("shop_functions:ship",), "functions"),
    ],
)
def test_a_missing_extra_is_named(run, monkeypatch, module, arguments, extra):
    monkeypatch.setitem(sys.modules, module, None)
    for name in ("toolspecs.imports.functions", "gateway.sources.mcp_source"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    result = run(*arguments)
    assert result.exit_code == 1
    assert f"pip install 'callgate[{extra}]'" in result.stderr
