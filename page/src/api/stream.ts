/** The event stream: it comes back by itself after a break, and says how it stands. */

import type { NodesMessage, NowMessage, Overview, Progress } from "./overview";
import { secretHeader } from "./secret";

export interface Hearing {
  onOverview(overview: Overview): void;
  onNodes(message: NodesMessage): void;
  onNow(message: NowMessage): void;
  onProgress(progress: Progress): void;
  onReset(): void;
  onOpen(): void;
  onBreak(retrySeconds: number): void;
  onBye(reason: string): void;
}

const LONGEST_WAIT_SECONDS = 15;

type Take = (data: unknown) => void;

/** Read server-sent events by `fetch`: an EventSource cannot send the header with the secret. */
export class Stream {
  private abort: AbortController | null = null;
  private timer = 0;
  private wait = 1;
  private lastId = "";
  private readonly takers: Record<string, Take>;

  constructor(
    private readonly path: string,
    private readonly hearing: Hearing,
  ) {
    this.takers = {
      overview: (data) => hearing.onOverview(data as Overview),
      nodes: (data) => hearing.onNodes(data as NodesMessage),
      now: (data) => hearing.onNow(data as NowMessage),
      progress: (data) => hearing.onProgress(data as Progress),
      reset: () => hearing.onReset(),
      bye: (data) => hearing.onBye((data as { reason: string }).reason),
    };
  }

  open(): void {
    this.close();
    const abort = new AbortController();
    this.abort = abort;
    const end = (): void => {
      if (!abort.signal.aborted) this.retry();
    };
    this.read(abort.signal).then(end, end);
  }

  close(): void {
    window.clearTimeout(this.timer);
    this.abort?.abort();
    this.abort = null;
  }

  private async read(signal: AbortSignal): Promise<void> {
    const seen: Record<string, string> = this.lastId ? { "Last-Event-ID": this.lastId } : {};
    const response = await fetch(this.path, { headers: { ...secretHeader(), ...seen }, signal });
    if (!response.ok || !response.body) return;
    this.wait = 1;
    this.hearing.onOpen();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const messages = (rest + value).split("\n\n");
      rest = messages.pop() ?? "";
      for (const message of messages) this.take(message);
    }
  }

  /** Take one message: lines of `id: `, `event: ` and `data: `, each at most once; a heartbeat has none of them. */
  private take(message: string): void {
    const fields = new Map(
      message.split("\n").map((line) => {
        const end = line.indexOf(": ");
        return [line.slice(0, end), line.slice(end + 2)] as const;
      }),
    );
    const data = fields.get("data");
    if (data === undefined) return;
    this.lastId = fields.get("id") ?? this.lastId;
    this.takers[fields.get("event") ?? ""]?.(JSON.parse(data));
  }

  private retry(): void {
    this.close();
    const seconds = this.wait;
    this.wait = Math.min(LONGEST_WAIT_SECONDS, this.wait * 2);
    this.hearing.onBreak(seconds);
    this.timer = window.setTimeout(() => this.open(), seconds * 1000);
  }
}
