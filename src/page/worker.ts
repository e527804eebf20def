/** Shows notifications of this device while the page is closed (service worker). It handles no other request. */
import { escape } from "../internal/escape.ts"

/** What of a service worker is used here: the types of pages do not have it. */
interface Worker {
  readonly registration: ServiceWorkerRegistration
  readonly clients: { readonly openWindow: (url: string) => Promise<unknown> }
  readonly addEventListener: {
    (
      type: "push",
      listener: (event: Extendable & { readonly data: { readonly json: () => unknown } | null }) => void
    ): void
    (type: "notificationclick", listener: (event: Extendable & { readonly notification: Notification }) => void): void
  }
}

interface Extendable {
  readonly waitUntil: (until: Promise<unknown>) => void
}

interface Said {
  readonly id?: unknown
  readonly title?: unknown
  readonly tool?: unknown
  readonly user?: unknown
  readonly url?: unknown
}

const worker = globalThis as unknown as Worker

worker.addEventListener("push", (event) => event.waitUntil(show(saidBy(event.data))))

worker.addEventListener("notificationclick", (event) => {
  event.notification.close()
  const { scope } = worker.registration
  const url: unknown = event.notification.data
  // it leads to this page and nowhere else
  event.waitUntil(worker.clients.openWindow(typeof url === "string" && url.startsWith(scope) ? url : scope))
})

const saidBy = (data: { readonly json: () => unknown } | null): Said => {
  try {
    const said = data?.json()
    return typeof said === "object" && said !== null ? said : {}
  } catch {
    return {}
  }
}

/** Browsers end the subscription of a page that shows nothing, so something is always shown. */
const show = ({ id, title, tool, url, user }: Said): Promise<void> =>
  worker.registration.showNotification(typeof title === "string" ? title : "Approval needed", {
    ...typeof tool === "string" && typeof user === "string" ? { body: escape(`${tool} for ${user}`) } : {},
    // a later one about the same request takes its place
    ...typeof id === "string" ? { tag: id } : {},
    data: url
  })
