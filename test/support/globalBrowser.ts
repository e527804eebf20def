/**
 * Starts one Chromium for all test files of a run; they find it through `TEST_BROWSER`.
 */
import { launch } from "./Chromium.ts"

export const setup = async (): Promise<() => Promise<void>> => {
  const browser = await launch()
  process.env["TEST_BROWSER"] = browser.wsEndpoint()
  return () => browser.close()
}
