/** Ask the server: JSON in, JSON out, and one kind of error. */

import { secretHeader } from "./secret";

export class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

interface ErrorBody {
  error?: string;
  code?: string;
}

export type Query = Record<string, string | number | null | undefined>;

export function address(path: string, query: Query = {}): string {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== null && value !== undefined) words.set(name, String(value));
  const tail = words.toString();
  return tail ? `${path}?${tail}` : path;
}

async function answer<T>(response: Response): Promise<T> {
  if (response.ok) return (await response.json()) as T;
  const body = (await response.json().catch(() => ({}))) as ErrorBody;
  throw new Refusal(
    response.status,
    body.code ?? "failed",
    body.error ?? `The server answered ${response.status}.`,
  );
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return answer<T>(await fetch(path, { headers: secretHeader(), signal: signal ?? null }));
}

export interface Done {
  ok: boolean;
  text: string;
  command?: string;
  confirm?: string | null;
}

export async function act(name: string, body: Record<string, unknown>): Promise<Done> {
  const response = await fetch(`/api/actions/${encodeURIComponent(name)}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...secretHeader() },
    body: JSON.stringify(body),
  });
  return answer<Done>(response);
}
