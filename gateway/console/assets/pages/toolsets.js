// The toolsets: the list, one toolset, its revisions, and registering. Their addresses:
//
//     #/toolsets                      the list
//     #/toolsets/NAME                 its tools, and with `?tool=` one of them; `?revision=` of an earlier revision
//     #/toolsets/NAME/revisions       its revisions, and with `?of=&since=` what one changed
//     #/toolsets/+register            a new one, or with `?name=` another revision; no toolset has a name with `+`

import { showList } from "../toolsets/list.js";
import { showRegister } from "../toolsets/register.js";
import { showRevisions } from "../toolsets/revisions.js";
import { showToolset } from "../toolsets/toolset.js";

export function show(place, signal) {
  const [name, part] = place.path;
  if (!name) return showList(place, signal);
  if (name === "+register") return showRegister(place, signal);
  if (part === "revisions") return showRevisions(name, place, signal);
  return showToolset(name, place, signal);
}
