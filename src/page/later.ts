/** Loads code on demand. */
import { useEffect, useState } from "preact/hooks"

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
