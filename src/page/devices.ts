/** Notifications of this device: whether the server and the browser have them, and whether they are on. */
import { signal } from "@preact/signals"
import { get, post, type Reply, sentenceOf } from "./api.ts"
import { say } from "./state.ts"

/** Whether this device is notified; `undefined` where it cannot be. */
export const isNotified = signal<boolean | undefined>(undefined)

/** Looks whether this device can be notified, and tells the server of it again if it is: it may have forgotten. */
export const lookAtDevice = async (): Promise<void> => {
  isNotified.value = undefined
  if (!("serviceWorker" in navigator) || !("PushManager" in globalThis) || !("Notification" in globalThis)) return
  const offered = await get<{ readonly publicKey: string }>("api/push")
  if (!offered.ok) return
  const found = await subscription()
  const isOn = found !== undefined && Notification.permission === "granted" && isFor(found, offered.value.publicKey)
  isNotified.value = isOn && (await subscribe(found)).ok
}

/** Asks the browser for notifications, and the server to send them. */
export const notifyHere = async (): Promise<void> => {
  try {
    const offered = await get<{ readonly publicKey: string }>("api/push")
    if (!offered.ok) return say(sentenceOf(offered.problem))
    if (await Notification.requestPermission() !== "granted") {
      return say("The browser does not allow notifications of this page. Allow them in its settings.")
    }
    await navigator.serviceWorker.register(workerUrl())
    const { pushManager } = await navigator.serviceWorker.ready
    const before = await pushManager.getSubscription()
    // a browser keeps one subscription, with the key it was made with
    if (before !== null && !isFor(before, offered.value.publicKey)) await before.unsubscribe()
    const made = await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: offered.value.publicKey })
    const reply = await subscribe(made)
    if (!reply.ok) {
      await made.unsubscribe()
      return say(sentenceOf(reply.problem))
    }
    isNotified.value = true
    say("This device is notified.")
  } catch {
    say("The browser could not turn on notifications.")
  }
}

/** Ends the notifications of this device, in the browser and at the server. */
export const stopHere = async (): Promise<void> => {
  try {
    const found = await subscription()
    if (found !== undefined) {
      await post("api/push/unsubscribe", { endpoint: found.endpoint })
      await found.unsubscribe()
    }
    isNotified.value = false
  } catch {
    say("The browser could not turn off notifications.")
  }
}

const subscription = async (): Promise<PushSubscription | undefined> =>
  await (await navigator.serviceWorker.getRegistration())?.pushManager.getSubscription() ?? undefined

const subscribe = (made: PushSubscription): Promise<Reply<undefined>> => {
  const { endpoint, keys } = made.toJSON()
  return post("api/push/subscribe", { endpoint, keys })
}

const isFor = ({ options: { applicationServerKey } }: PushSubscription, publicKey: string): boolean =>
  applicationServerKey !== null &&
  btoa(String.fromCharCode(...new Uint8Array(applicationServerKey)))
      .replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "") === publicKey

interface Policies {
  readonly createPolicy: (
    name: string,
    rules: { readonly createScriptURL: () => string }
  ) => { readonly createScriptURL: (text: string) => string }
}

/** Made when it is needed; a page makes a policy of a name once. */
const made: { policy?: ReturnType<Policies["createPolicy"]> | undefined } = {}

/** The only script that the page may name itself. Browsers without trusted types take the text. */
const workerUrl = (): string => {
  const { trustedTypes } = globalThis as unknown as { readonly trustedTypes?: Policies }
  made.policy ??= trustedTypes?.createPolicy("tool-executor-worker", { createScriptURL: () => "sw.js" })
  return made.policy?.createScriptURL("") ?? "sw.js"
}
