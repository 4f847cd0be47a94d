/** Ask for one answer and keep it fresh: again when the run has new events, at most every few seconds. */

import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../api/client";
import { event } from "./store";

export interface Answer<T> {
  data: T | null;
  error: string;
  reload(): void;
}

interface Options {
  /** Seconds between two questions while events come; 0: ask once. */
  every?: number;
  /** Hold the old answer for now: something under the pointer would move. */
  isHeld?: () => boolean;
}

export function useQuery<T>(path: string | null, options: Options = {}): Answer<T> {
  const [state, setState] = useState<{ path: string | null; data: T | null; error: string }>({
    path,
    data: null,
    error: "",
  });
  const [turn, setTurn] = useState(0);
  const held = useRef(options.isHeld);
  held.current = options.isHeld;
  const every = options.every ?? 3;
  useEffect(() => {
    if (path === null) return undefined;
    const abort = new AbortController();
    get<T>(path, abort.signal).then(
      (data) => setState({ path, data, error: "" }),
      (error: Error) => {
        if (!abort.signal.aborted)
          setState((old) => ({ path, data: old.path === path ? old.data : null, error: error.message }));
      },
    );
    return () => abort.abort();
  }, [path, turn]);

  useEffect(() => {
    if (!every || path === null) return undefined;
    let timer = 0;
    const seen = event.peek();
    const stop = event.subscribe((now) => {
      if (now === seen || timer) return;
      const ask = (): void => {
        if (held.current?.()) timer = window.setTimeout(ask, 1000);
        else setTurn((old) => old + 1);
      };
      timer = window.setTimeout(ask, every * 1000);
    });
    return () => {
      stop();
      window.clearTimeout(timer);
    };
    // After each answer the watch begins anew.
  }, [path, every, turn]);

  const data = state.path === path ? state.data : null;
  return { data, error: state.path === path ? state.error : "", reload: () => setTurn((old) => old + 1) };
}
