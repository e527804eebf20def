/** What the result of a confined command says about its sandbox: only where it kept the command from something. */
import type * as Sandbox from "./Sandbox.ts"

/** A confined command that has ended. */
export interface Ended extends Sandbox.Finished {
  readonly exitCode: number | null
  readonly output: string
  readonly errors: string
  readonly sandbox: Sandbox.Sandbox["Service"]
  /** Whether it could reach listed hosts. */
  readonly network: boolean
}

/** Gives what there is to say; `undefined` if nothing is. */
export const of = (
  { errors, exitCode, hidden = [], network, output, refusedHosts, replaced = [], sandbox, setAside }: Ended
): string | undefined => {
  const { allowsUnconfined, status } = sandbox
  const notes: Array<string> = []
  const { left = [] } = setAside ?? {}
  if (left.length > 0) {
    notes.push(`Other programs execute these files by themselves, and they could not be moved away: ${list(left)}.`)
  }
  if (setAside !== undefined && setAside.paths.length > 0) {
    notes.push(
      `The command made files that other programs execute by themselves. They were moved out of the workspace, to ${setAside.folder}: ` +
        `${list(setAside.paths)}. To make such a file, use write_file.`
    )
  }
  if (replaced.length > 0) {
    notes.push(
      `Another program replaced these protected files while the command ran, so the command could read and change the ` +
        `new ones. Check them before you use them: ${list(replaced)}.`
    )
  }
  if (refusedHosts !== undefined && refusedHosts.length > 0) {
    notes.push(`It was not allowed to reach ${list(refusedHosts)}.`)
  }
  if (exitCode !== 0) {
    const said = `${errors}\n${output}`
    const unread = hidden.filter((it) => said.includes(it.slice(it.lastIndexOf("/") + 1)))
    if (unread.length > 0) {
      notes.push(
        `Commands cannot read these files, because they hold secrets or the policy denies them: ${list(unread)}.`
      )
      return notes.join(" ")
    }
    const isNetwork = noNetwork.test(said)
    const canList = status._tag === "Holds" && status.network === "listed" && !network
    if (isNetwork && canList) {
      notes.push("It had no network. If it needs hosts, repeat it with network: true.")
    } else if (isNetwork || noAccess.test(said)) {
      const why = isNetwork ? "it has no network" : "it can change only the workspace, and no protected files there"
      const next = allowsUnconfined
        ? "If it cannot be done otherwise, repeat it with unconfined: true; a person is asked then."
        : "It cannot run without the sandbox: find another way, or tell the user."
      notes.push(`The command may have failed because of its sandbox: ${why}. ${next}`)
    }
  }
  return notes.length === 0 ? undefined : notes.join(" ")
}

const noAccess =
  /\bEROFS\b|\bEPERM\b|\bEACCES\b|\bEXDEV\b|\bEBUSY\b|read-only file system|operation not permitted|permission denied|device or resource busy/i

const noNetwork =
  /\bENETUNREACH\b|\bEAI_AGAIN\b|\bENOTFOUND\b|\bEHOSTUNREACH\b|network is unreachable|could not resolve|name resolution|unable to resolve|no such host|name or service not known|getaddrinfo/i

const list = (texts: ReadonlyArray<string>): string =>
  texts.slice(0, 20).join(", ") + (texts.length > 20 ? ` and ${texts.length - 20} more` : "")
