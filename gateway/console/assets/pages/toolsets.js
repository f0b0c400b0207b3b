// The toolsets: the list, one toolset, its revisions, and registering. Their addresses:
//
//     #/toolsets                      the list
//     #/toolsets/NAME                 its tools, and with `?tool=` one of them; `?revision=` of an earlier revision
//     #/toolsets/NAME/revisions       its revisions, and with `?of=&since=` what one changed
//     #/toolsets/NAME/sources         what its sources offer beside what is served
//     #/toolsets/+register            a new one, or with `?name=` another revision; no toolset has a name with `+`

import { Problem } from "../api.js";
import { link } from "../address.js";
import { make } from "../elements.js";
import { showList } from "../toolsets/list.js";
import { showRegister } from "../toolsets/register.js";
import { showRevisions } from "../toolsets/revisions.js";
import { showSources } from "../toolsets/sources.js";
import { showToolset } from "../toolsets/toolset.js";

export async function show(address, signal) {
  try {
    return await shown(address, signal);
  } catch (error) {
    if (error instanceof Problem && error.status === 404) error.ways = waysOn(address, error);
    throw error;
  }
}

function shown(address, signal) {
  const [name, part] = address.path;
  if (!name) return showList(address, signal);
  if (name === "+register") return showRegister(address, signal);
  if (part === "revisions") return showRevisions(name, address, signal);
  if (part === "sources") return showSources(name, address, signal);
  return showToolset(name, address, signal);
}

/** From a link to what is no longer there: to the toolset as it is, or to what it was. */
function waysOn({ path: [name], query }, { latest }) {
  const ways = [make("a.button.quiet", { href: link(["toolsets"]) }, "All toolsets")];
  if (latest) ways.unshift(make("a.button.quiet", { href: link(["toolsets", name, "revisions"]) }, "Its revisions"));
  else if (query.tool || query.revision) ways.unshift(make("a.button.quiet", { href: link(["toolsets", name]) }, "Its tools now"));
  return ways;
}
