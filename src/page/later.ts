/** Loads code on demand. */
import type { VNode } from "preact"
import { useEffect, useState } from "preact/hooks"
import { html } from "./html.ts"

/** Loads a module once it is needed; `undefined` while it loads. */
export const useLater = <A>(
  isWanted: boolean,
  load: () => Promise<A>
): { readonly module: A } | "failed" | undefined => {
  const [loaded, setLoaded] = useState<{ readonly module: A } | "failed" | undefined>(undefined)
  useEffect(() => {
    if (isWanted) load().then((module) => setLoaded({ module }), () => setLoaded("failed"))
  }, [isWanted])
  return loaded
}

/** A view whose code is loaded when it is first shown. */
export const later = (load: () => Promise<() => VNode>) => (): VNode => {
  const view = useLater(true, load)
  return view === undefined
    ? html`<p class="hint">Loading …</p>`
    : view === "failed"
    ? html`<p class="hint">This view could not be loaded. Reload the page to try again.</p>`
    : html`<${view.module} />`
}
