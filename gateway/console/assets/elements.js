// Makes elements. Text becomes text, never HTML, wherever it comes from.

/**
 * An element. `kind` is a tag with classes behind dots; then come attributes, if the next argument is a plain
 * object, and then what is in it: elements, text, lists of these, or null for nothing.
 *
 *     make("a.quiet", { href: "#/toolsets", onclick: leave }, "Toolsets")
 *
 * Functions are listeners, true is an attribute without a value, false and null leave it out. `style` is an
 * object: the page's policy allows no style as text.
 */
export function make(kind, ...inside) {
  const [tag, ...classes] = kind.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  if (isAttributes(inside[0])) setAttributes(element, inside.shift());
  element.append(...nodes(inside));
  return element;
}

/** What may stand in an element, as nodes: lists are unfolded, and null, undefined and false are nothing. */
export function nodes(...inside) {
  return inside.flat(Infinity).filter((each) => each != null && each !== false);
}

function isAttributes(value) {
  return value != null && Object.getPrototypeOf(value) === Object.prototype;
}

function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value == null || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.replace(/^on/, ""), value);
    else if (name === "style") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
    else element.setAttribute(name, value === true ? "" : value);
  }
}

/** A stranger's text in which every character can be seen: none hides others, or turns the order of letters round. */
export function visible(text) {
  return `${text}`.replaceAll(/[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/gu, (char) => (
    char === "\n" ? char : `\\u{${char.codePointAt(0).toString(16)}}`
  ));
}
