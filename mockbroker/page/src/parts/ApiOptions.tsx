/** The APIs as options of a select. */

import { apis } from "../data/catalogue.ts";

export function ApiOptions() {
  return (
    <>
      {apis.value.items.map((each) => (
        <option key={each.name} value={each.name}>
          {each.name}
        </option>
      ))}
    </>
  );
}
