// The toolsets: the list, one toolset, its revisions, and registering. Their addresses:
//
//     #/toolsets                      the list
//     #/toolsets/NAME                 its tools, and with `?tool=` one of them; `?revision=` of an earlier revision
//     #/toolsets/NAME/revisions       its revisions, and with `?of=&since=` what one changed
//     #/toolsets/NAME/sources         what its sources offer beside what is served
//     #/toolsets/+register            a new one, or with `?name=` another revision; no toolset has a name with `+`

import { showList } from "../toolsets/list.js";
import { showRegister } from "../toolsets/register.js";
import { showRevisions } from "../toolsets/revisions.js";
import { showSources } from "../toolsets/sources.js";
import { showToolset } from "../toolsets/toolset.js";

export function show(address, signal) {
  const [name, part] = address.path;
  if (!name) return showList(address, signal);
  if (name === "+register") return showRegister(address, signal);
  if (part === "revisions") return showRevisions(name, address, signal);
  if (part === "sources") return showSources(name, address, signal);
  return showToolset(name, address, signal);
}
