/** `tool-executor undo`: brings files back to what they were before a write. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Checkpoints from "../../core/output/Checkpoints.ts"
import { ConfigurationError } from "../../core/vocabulary/ConfigurationError.ts"
import { escape, escapeLines } from "../../internal/escape.ts"
import * as Undo from "../../tools/workspace/Undo.ts"
import * as Workspace from "../../tools/workspace/Workspace.ts"
import * as CheckpointFlag from "../agent/Checkpoints.ts"
import { CliFailure, describe, wrong } from "../CliFailure.ts"
import * as Files from "../Files.ts"
import * as Flags from "../Flags.ts"

const input = {
  id: Argument.String("ID").pipe(
    Argument.withDescription("Which write to undo, as --list shows it; default the last one that can be undone"),
    Argument.optional
  ),
  root: Flag.String("root").pipe(
    Flag.withMetavar("DIR"),
    Flag.withDescription("Folder that the tools worked in; default the current one"),
    Flag.withDefault(".")
  ),
  checkpoints: CheckpointFlag.flag,
  list: Flags.toggle("list", "Show what can be undone, newest first; change nothing"),
  dryRun: Flags.toggle("dry-run", "Show what would change; change nothing"),
  force: Flags.toggle("force", "Also overwrite files that changed after the write")
}

export const command = Command.make(
  "undo",
  input,
  Effect.fnUntraced(function*({ checkpoints, dryRun, force, id, list, root }) {
    const layer = yield* CheckpointFlag.layerOf(checkpoints, root)
    if (layer === undefined) return yield* wrong("--checkpoints none keeps nothing, so there is nothing to undo.")
    yield* Effect.gen(function*() {
      const workspace = yield* Workspace.make(root)
      const all = yield* Effect.flatMap(Checkpoints.Checkpoints, (it) => it.list(CheckpointFlag.principal))
      if (list) return yield* Files.print(all.length === 0 ? "There is nothing to undo." : all.map(line).join("\n"))
      const checkpoint = yield* choose(all, id)
      const plan = dryRun
        ? yield* Undo.plan(workspace, checkpoint)
        : yield* Undo.restore(workspace, checkpoint, { force })
      yield* Files.print(report(plan, dryRun))
      if (dryRun && !force && plan.steps.some(({ action }) => action === "changed" || action === "refused")) {
        return yield* incomplete("")
      }
    }).pipe(
      Effect.provide(layer),
      Effect.catch((error) => {
        if (error instanceof CliFailure) return Effect.fail(error)
        if (error instanceof Undo.UndoRefused) return Effect.fail(refused(error))
        if (error instanceof ConfigurationError) return Effect.fail(wrong(describe(error)))
        const where = error instanceof Checkpoints.CheckpointError ? "" : `${error.path}: `
        return Effect.fail(incomplete(`${where}${error.message}`))
      })
    )
  })
).pipe(
  Command.withShortDescription("Restore files to their state before a write"),
  Command.withDescription(
    "Restores files to their state before a write of `tool-executor run`. A file that changed since then stays as it " +
      "is unless --force is given. Links are never followed. Overwritten content is kept first, so an undo can itself be " +
      "undone by its ID. Changes made by commands are not undone. Exit codes: 0 done, 1 nothing was changed because " +
      "something could not be undone, 2 invalid usage."
  ),
  Command.withExamples([
    { command: "tool-executor undo --list", description: "Show the writes that can be undone" },
    { command: "tool-executor undo --dry-run", description: "Show what undoing the last one would change" },
    { command: "tool-executor undo", description: "Undo the last write" }
  ])
)

const incomplete = (explanation: string): CliFailure =>
  new CliFailure({ code: 1, explanation: escapeLines(explanation) })

const refused = ({ isForceable, problems }: Undo.UndoRefused): CliFailure =>
  incomplete([
    "Nothing was changed:",
    ...problems.map(({ path, problem }) => `  ${escape(path)}: ${escape(problem)}`),
    ...isForceable ? ["--force overwrites it."] : []
  ].join("\n"))

/** The write that was asked for, or the last known one that is not an undo itself. */
const choose = (
  all: ReadonlyArray<Checkpoints.Checkpoint>,
  id: Option.Option<string>
): Effect.Effect<Checkpoints.Checkpoint, CliFailure> => {
  if (Option.isNone(id)) {
    const last = all.find((it) => it.files.length > 0 && it.tool !== "undo")
    return last === undefined ? Effect.fail(incomplete("There is nothing to undo.")) : Effect.succeed(last)
  }
  const found = all.find((it) => it.id === id.value)
  if (found === undefined) {
    return Effect.fail(
      wrong(`Unknown write ${escape(id.value)}. \`tool-executor undo --list\` lists them.`)
    )
  }
  return found.files.length > 0
    ? Effect.succeed(found)
    : Effect.fail(incomplete(`${found.tool} cannot be undone: the tool does not declare what it changes.`))
}

const line = (checkpoint: Checkpoints.Checkpoint): string => {
  const { at, files, id, tool } = checkpoint
  const when = DateTime.formatIso(DateTime.makeUnsafe(at)).replace(/\.\d+Z$/, "Z")
  const what = files.length === 0 ?
    "cannot be undone: the tool does not declare what it changes" :
    files.map((it) => it.path).join(", ")
  return `${id}  ${when}  ${escape(tool)}  ${escape(what)}`
}

const report = ({ diff, notCovered, steps }: Undo.Plan, isDryRun: boolean): string => {
  const tense = isDryRun ? planned : done
  return [
    ...steps.map(({ action, because, path }) =>
      `${tense[action]} ${escape(path)}${because === undefined ? "" : `: ${escape(because)}`}`
    ),
    ...isDryRun && diff !== "" ? ["", escapeLines(diff.replace(/\n$/, ""))] : [],
    ...notCovered.length === 0 ? [] : [
      "",
      `Not undone: what ${
        notCovered.length === 1 ? "1 later call" : `${notCovered.length} later calls`
      } may have changed (${Array.from(new Set(notCovered.map((it) => escape(it.tool)))).join(", ")}).`
    ]
  ].join("\n")
}

const planned: Readonly<Record<Undo.Step["action"], string>> = {
  restore: "would restore",
  remove: "would remove ",
  nothing: "is unchanged ",
  changed: "needs --force",
  refused: "cannot undo  "
}

const done: Readonly<Record<Undo.Step["action"], string>> = {
  restore: "restored    ",
  remove: "removed     ",
  nothing: "is unchanged",
  changed: "overwritten ",
  refused: "not undone  "
}
