// API keys: who may call, and what for? A key is shown once, in the tab that made it.

import { Problem, call, getAll } from "../api.js";
import { askingButton } from "../dialogs.js";
import { keepTyped } from "../typed_input.js";
import { make, visible } from "../elements.js";
import { badge, empty, field, heading, moment, number, problemBox, table } from "../parts.js";
import { go, reload } from "../address.js";

const SCOPES = [
  ["invoke", "call models"],
  ["register", "write toolsets"],
  ["admin", "everything, keys too"],
];
const DAY_MS = 86_400_000;
const MAX_DAYS = 36_500;

export async function show(address, signal) {
  if (address.path[0] === "new") return newKey(signal);
  const keys = await getAll("v1/keys", "keys", signal);
  const add = make("button", { type: "button", onclick: () => go(["keys", "new"]) }, "New key");
  if (!keys.length) {
    const text = "Give each client a key of its own: a key says what its client may do, and how often.";
    return [heading("API keys", QUESTION), empty("No key in the store yet", text, add)];
  }
  return [heading("API keys", QUESTION, add), table("API keys", COLUMNS, keys)];
}

const QUESTION = "Who may call, and what for?";

const COLUMNS = [
  { title: "Name", cell: (key) => [make("strong", visible(key.name)), " ", make("code.soft", key.id)] },
  { title: "Scopes", cell: (key) => key.scopes.map((scope) => [badge(scope, scope === "admin" ? "fair" : "plain"), " "]) },
  { title: "Bound to", cell: bounds },
  { title: "Limits a minute", cell: limits },
  { title: "Created", cell: (key) => moment(key.created_at) },
  { title: "Expires", cell: ends },
  { title: "", cell: (key) => make("div.actions", rotateButton(key), revokeButton(key)) },
];

function bounds(key) {
  const parts = [
    key.tenant && `tenant ${key.tenant}`,
    key.toolsets && `toolsets ${key.toolsets.join(", ")}`,
    key.models && `models ${key.models.join(", ")}`,
  ].filter(Boolean);
  return parts.length ? parts.map((part) => make("div", part)) : make("span.soft", "nothing");
}

function limits(key) {
  const parts = [
    key.requests_per_minute && `${number(key.requests_per_minute)} requests`,
    key.tokens_per_minute && `${number(key.tokens_per_minute)} tokens`,
  ].filter(Boolean);
  return parts.length ? parts.map((part) => make("div", part)) : make("span.soft", "no limit");
}

function ends(key) {
  if (key.is_expired) return badge("expired", "bad");
  if (!key.expires_at) return make("span.soft", "never");
  return make("time", { datetime: key.expires_at }, new Date(key.expires_at).toLocaleDateString());
}

/** A key's name and its id: several keys may have the same name. */
const named = (key) => `${visible(key.name)} (${key.id})`;

function rotateButton(key) {
  const rotate = async () => {
    const made = await call("POST", `v1/keys/${key.id}/rotate`, { body: {} });
    return newSecret(made, "The old secret works for one more day.");
  };
  const text = "The key gets a new secret, which you see once. The old secret works for one more day.";
  return askingButton("Rotate", "quiet", `Rotate the key ${named(key)}?`, text, rotate, named(key));
}

function revokeButton(key) {
  const text = "This gateway refuses its requests at once, other gateways within five seconds. A revoked key cannot be brought back.";
  const revoke = async () => {
    await call("DELETE", `v1/keys/${key.id}`);
    reload();
  };
  return askingButton("Revoke", "danger", `Revoke the key ${named(key)}?`, text, revoke, named(key));
}

/** A new key, with a button that copies it: no later answer has the secret. */
function newSecret(made, note = "", ...actions) {
  const copy = make("button.quiet", { type: "button" }, "Copy");
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(made.key);
    copy.textContent = "Copied";
  });
  return [
    make("h2", `The key ${named(made)}`),
    make("p", make("code", { "data-key": "" }, made.key)),
    make("p.soft", `Copy it now: it is shown once, and the gateway keeps only its digest. ${note}`),
    make("div.actions", navigator.clipboard && copy, actions),
  ];
}

function newKey(signal) {
  const name = make("input", { required: true, maxlength: "100", autocomplete: "off" });
  const boxes = SCOPES.map(([scope, what]) => {
    const box = make("input", { type: "checkbox", value: scope, id: `scope-${scope}` });
    box.checked = scope === "invoke";
    return [box, make("label", { for: box.id }, box, ` ${scope}: ${what}`)];
  });
  const inputs = {
    toolsets: textInput(),
    models: textInput(),
    tenant: textInput(),
    requests_per_minute: countInput(),
    tokens_per_minute: countInput(),
    days: countInput(MAX_DAYS),
  };
  const scopes = Object.fromEntries(boxes.map(([box]) => [box.id, box]));
  const typed = keepTyped("keys/new", { name, ...scopes, ...inputs }, signal);
  const result = make("div");
  const create = async (event) => {
    event.preventDefault();
    const button = event.submitter;
    if (button) button.disabled = true;
    try {
      const made = await call("POST", "v1/keys", { body: requestBody(name, boxes.map(([box]) => box), inputs) });
      typed.forget();
      const all = make("a.button", { href: "#/keys" }, "All keys");
      form.replaceWith(make("div.card", { role: "status" }, newSecret(made, "", all)));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      result.replaceChildren(problemBox(error));
    } finally {
      if (button) button.disabled = false;
    }
  };
  const form = make(
    "form.card",
    { onsubmit: create },
    field("Name", name, "What the key is for, such as the name of an agent."),
    make("fieldset.plain", make("legend", "Scopes"), boxes.map(([, label]) => label)),
    field("Toolsets", inputs.toolsets, "Names with commas between them; empty for all."),
    field("Models", inputs.models, "Names with commas between them; empty for all."),
    field("Tenant", inputs.tenant, "Lower-case letters, digits and hyphens. Keys of a tenant see its toolsets and no others; empty for none."),
    field("Requests a minute", inputs.requests_per_minute, "Empty for no limit."),
    field("Tokens a minute", inputs.tokens_per_minute, "Of prompts and answers; empty for no limit."),
    field("Days until it expires", inputs.days, "Empty for never."),
    result,
    make("div.actions", make("button", { type: "submit" }, "Create key"), make("a.button.quiet", { href: "#/keys", onclick: () => typed.forget() }, "Cancel")),
  );
  return [heading("New API key", QUESTION), form];
}

const textInput = () => make("input", { autocomplete: "off", spellcheck: "false" });
const countInput = (max = null) => make("input", { type: "number", min: "1", max, step: "1" });

/** The body of the request; empty fields are left out. */
function requestBody(name, boxes, inputs) {
  const list = (input) => input.value.split(",").map((part) => part.trim()).filter(Boolean);
  const days = Number(inputs.days.value);
  const given = {
    name: name.value.trim(),
    scopes: boxes.filter((box) => box.checked).map((box) => box.value),
    toolsets: list(inputs.toolsets),
    models: list(inputs.models),
    tenant: inputs.tenant.value.trim(),
    requests_per_minute: Number(inputs.requests_per_minute.value),
    tokens_per_minute: Number(inputs.tokens_per_minute.value),
    expires_at: days ? new Date(Date.now() + days * DAY_MS).toISOString() : "",
  };
  const required = new Set(["name", "scopes"]);
  const isGiven = ([field, value]) => required.has(field) || (Array.isArray(value) ? value.length : value);
  return Object.fromEntries(Object.entries(given).filter(isGiven));
}
