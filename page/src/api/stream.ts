/** The event stream: it comes back by itself after a break, and says how it stands. */

import type { NodesMessage, NowMessage, Overview, Progress } from "./overview";

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

export class Stream {
  private source: EventSource | null = null;
  private timer = 0;
  private wait = 1;
  private lastHeard = 0;

  constructor(
    private readonly path: string,
    private readonly hearing: Hearing,
  ) {}

  open(): void {
    this.close();
    const source = new EventSource(this.path);
    this.source = source;
    source.onopen = () => {
      this.wait = 1;
      this.lastHeard = Date.now();
      this.hearing.onOpen();
    };
    source.onerror = () => this.retry();
    this.hear<Overview>("overview", (value) => this.hearing.onOverview(value));
    this.hear<NodesMessage>("nodes", (value) => this.hearing.onNodes(value));
    this.hear<NowMessage>("now", (value) => this.hearing.onNow(value));
    this.hear<Progress>("progress", (value) => this.hearing.onProgress(value));
    this.hear<unknown>("reset", () => this.hearing.onReset());
    this.hear<{ reason: string }>("bye", (value) => this.hearing.onBye(value.reason));
  }

  /** Seconds since the last message; the server's heartbeat is a comment that the browser does not show. */
  get silentSeconds(): number {
    return this.lastHeard ? (Date.now() - this.lastHeard) / 1000 : 0;
  }

  close(): void {
    window.clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  private hear<T>(name: string, then: (value: T) => void): void {
    this.source?.addEventListener(name, (message) => {
      this.lastHeard = Date.now();
      then(JSON.parse((message as MessageEvent<string>).data) as T);
    });
  }

  // A browser gives up for good on some errors, so that the next try is made here and not by EventSource.
  private retry(): void {
    this.close();
    const seconds = this.wait;
    this.wait = Math.min(LONGEST_WAIT_SECONDS, this.wait * 2);
    this.hearing.onBreak(seconds);
    this.timer = window.setTimeout(() => this.open(), seconds * 1000);
  }
}
