/** The secret of the printed address: it lives in this page's own storage and travels only as a header. */

const KEY = "loopty-token";

let token = stored();

function stored(): string {
  try {
    return globalThis.localStorage?.getItem(KEY) ?? "";
  } catch {
    return ""; // the browser forbids storage: the secret lasts as long as this page
  }
}

/** Take the secret out of the address, if it is there, so that no history or copied address has it. */
export function takeSecret(): boolean {
  const found = /^#token=([\w-]+)$/.exec(location.hash)?.[1];
  if (!found) return false;
  token = found;
  try {
    localStorage.setItem(KEY, token);
  } catch {
    // as above
  }
  history.replaceState(null, "", location.pathname);
  return true;
}

export const secretHeader = (): Record<string, string> => ({ "X-Loopty-Token": token });
