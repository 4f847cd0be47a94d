/** One tooltip for the page; it never holds anything that cannot be reached otherwise. */

import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

const tip = signal<{ x: number; y: number; body: ComponentChildren } | null>(null);

export function showTip(at: { clientX: number; clientY: number }, body: ComponentChildren): void {
  tip.value = { x: at.clientX, y: at.clientY, body };
}

export function hideTip(): void {
  if (tip.value) tip.value = null;
}

export function Tip(): JSX.Element | null {
  const box = useRef<HTMLDivElement>(null);
  const now = tip.value;
  useLayoutEffect(() => {
    if (!box.current || !now) return;
    const size = box.current.getBoundingClientRect();
    const isLow = now.y + size.height + 24 > innerHeight;
    box.current.style.left = `${Math.max(8, Math.min(now.x + 14, innerWidth - size.width - 8))}px`;
    box.current.style.top = `${isLow ? now.y - size.height - 12 : now.y + 14}px`;
  });
  if (!now) return null;
  return (
    <div class="tip" ref={box} aria-hidden="true">
      {now.body}
    </div>
  );
}
