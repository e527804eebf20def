/**
 * Every command that a line may run, each as plain words: what patterns that deny and ask are held against. Pure.
 *
 * It reads more than a shell would run, never less by design, and still cannot list every way to write a command: a
 * shell can compute its words.
 */

/** Characters that a line, and all its spellings together, may have. */
const most = { line: 131_072, spellings: 500_000 }

/**
 * Gives the commands of a line, the program by its path and by its name. Throws a `RangeError` of a line that has more
 * characters than a system takes, or too many spellings.
 */
export const spellings = (line: string, argv: ReadonlyArray<string> | undefined): ReadonlySet<string> => {
  // an argument may be a separate line, as for sh -c
  const lines = [line, ...(argv ?? []).filter((word) => /\s/.test(word))]
  if (lines.some((it) => it.length > most.line)) throw new RangeError("RunCommand.targets: the line is too long")
  const all = new Set<string>()
  let size = 0
  const add = (words: ReadonlyArray<string>): void => {
    const text = words.join(" ")
    if (all.has(text)) return
    all.add(text)
    checkSize(size += text.length)
  }
  for (const segment of new Set(lines.flatMap(segmentsOf))) {
    for (const words of commandsOf(wordsOf(segment))) {
      add(words)
      add([nameOf(words[0]!), ...words.slice(1)])
    }
  }
  return all
}

/** Throws a `RangeError` where spellings have too many characters. */
export const checkSize = (characters: number): void => {
  if (characters > most.spellings) {
    throw new RangeError("RunCommand.targets: the line can be written in too many ways")
  }
}

/** Parts of a line that a shell may run one by one, with redirections and without. */
const segmentsOf = (line: string): ReadonlyArray<string> => {
  const joined = line.replaceAll(/\\\r?\n/g, "").replaceAll(/\$\{?IFS\}?/g, " ").replaceAll(/\$(?=["'])/g, "")
  const direct = joined.replaceAll(/\d{0,3}&?(?:<<<|<<-?|>>|<>|>\||[<>]&?)[ \t]*[^\s;|()<>]*/g, " ")
  const split = (it: string) => it.split(/[;&|<>(){}`\n\r]+/)
  return [line, joined, direct, ...split(line), ...split(joined), ...split(direct)]
}

const wordsOf = (segment: string): ReadonlyArray<string> => {
  const words = segment.replaceAll(/["'\\]/g, "").trim().split(/\s+/)
  return words[0] === "" ? [] : words
}

const nameOf = (program: string): string => program.slice(program.lastIndexOf("/") + 1)

/** A command as written, and the command it runs after assignments, keywords and programs that run another one. */
const commandsOf = (words: ReadonlyArray<string>): ReadonlyArray<ReadonlyArray<string>> => {
  const found: Array<ReadonlyArray<string>> = []
  // how many words of a line are looked at as the start of a command
  let left = 64
  const visit = (at: number): void => {
    if (at >= words.length || left-- <= 0) return
    found.push(words.slice(at))
    const word = words[at]!
    const name = nameOf(word)
    if (assignment.test(word) || keywords.has(word)) return visit(at + 1)
    if (!runners.has(name)) return
    const own = takesArgument.has(name) ? 1 : 0
    let next = at + 1
    for (; next < words.length; next++) {
      const isOption = words[next]!.startsWith("-")
      if (!isOption && !assignment.test(words[next]!)) break
      // the word behind an option may be its value
      if (isOption) visit(next + 2 + own)
    }
    visit(next + own)
  }
  visit(0)
  words.forEach((word, index) => {
    if (startsCommand.has(word)) visit(index + 1)
  })
  return found
}

const assignment = /^[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=/

const keywords = new Set(["!", "{", "if", "then", "elif", "else", "while", "until", "do", "coproc"])

/** Programs and built-in commands that run the command in their arguments. */
const runners = new Set(
  ("exec command builtin eval nohup env sudo doas nice ionice chrt taskset setsid stdbuf timeout xargs parallel watch " +
    "strace ltrace unshare nsenter chroot runuser su busybox toybox sh bash dash zsh ksh ash fish time caffeinate " +
    "systemd-run flock script npx bunx pnpx uvx pipx").split(" ")
)

/** Arguments, as of find, that a command stands behind. */
const startsCommand = new Set(["-exec", "-execdir", "-ok", "-okdir", "--exec", "--exec-batch", "-x", "-X", "-c", "--"])

/** Runners whose first argument is not the command. */
const takesArgument = new Set(["timeout", "chroot", "flock", "taskset", "su", "chrt"])
