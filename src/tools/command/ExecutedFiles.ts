/**
 * Names of files and folders whose content other programs execute: what is written there runs later, without another
 * call to approve.
 *
 * Names are in lower case and matched in any case, since some file systems do not tell cases apart. `*` is any run of
 * characters. No such list is complete.
 */

/**
 * Files and folders that editors, version control, continuous integration, package managers, shells and agents execute
 * or obey without being asked. Writing them, or anything in such a folder, needs an approval.
 */
export const byThemselves: ReadonlyArray<string> = [
  // version control and its hooks
  ".gitmodules .gitattributes .gitconfig .githooks .lfsconfig .hg .hgrc .svn .jj .husky .overcommit.yml .hooks",
  ".pre-commit-config.y*ml .pre-commit-hooks.y*ml lefthook.* .lefthook.* lefthook-local.* .lefthook-local.*",
  // continuous integration and deployment
  ".github .gitea .forgejo .gitlab .gitlab-ci.y*ml .circleci .buildkite .travis.y*ml .drone.y*ml .woodpecker",
  ".woodpecker.y*ml jenkinsfile jenkinsfile.* azure-pipelines.y*ml bitbucket-pipelines.y*ml appveyor.y*ml",
  ".appveyor.y*ml .cirrus.* .semaphore .tekton .teamcity wercker.y*ml codeship-*.y*ml buildspec.y*ml appspec.y*ml",
  "cloudbuild.y*ml renovate.json renovate.json5 .renovaterc .renovaterc.*",
  // editors
  ".vscode .idea .zed .fleet .devcontainer .devcontainer.json *.code-workspace *.sublime-project *.sublime-build",
  ".helix .exrc .vimrc .nvimrc .nvim.lua .lvimrc .local.vimrc _vimrc .vim .kakrc .lazy.lua .emacs .emacs.d",
  ".dir-locals.el .spacemacs .gdbinit .gdbearlyinit .lldbinit .ycm_extra_conf.py .tmux.conf .tmuxinator.y*ml",
  ".screenrc",
  // agents
  "agents.md agents.override.md agent.md claude.md claude.local.md gemini.md qwen.md .claude .cursor .cursorrules",
  ".windsurf .windsurfrules .continue .codex .gemini .qwen .clinerules .roo .roomodes .aider.conf.y*ml .kiro .junie",
  ".amazonq .augment .copilot .opencode opencode.json opencode.jsonc .goosehints .crush.json crush.json .trae",
  ".agents .mcp.json mcp.json .mcp",
  // shells, and what a folder loads when it is entered
  ".envrc .direnv .autoenv .autoenv.zsh .ssh .config .profile .xprofile .xinitrc .inputrc .login .logout .bashrc",
  ".bash_profile .bash_login .bash_logout .bash_aliases .zshrc .zshenv .zprofile .zlogin .zlogout .cshrc .tcshrc",
  ".kshrc .mkshrc .xonshrc profile.ps1 *_profile.ps1 .mise.toml mise.toml .mise.*.toml mise.*.toml .mise",
  ".tool-versions",
  // clients that run commands from their start-up files
  ".psqlrc .sqliterc .my.cnf .curlrc .wgetrc .netrc .ripgreprc .lessfilter .mailcap *.desktop",
  // package managers
  ".npmrc .yarnrc .yarnrc.yml .yarn .pnpmfile.* .pnp.* .cargo .pypirc .bundle .mvn pip.conf pip.ini .condarc .gemrc"
].flatMap((it) => it.split(" "))

/**
 * Executed by commands such as `npm test` or `make`. They cannot be written without an approval while a policy lets any
 * command run unasked.
 */
export const byCommands: ReadonlyArray<string> = [
  // JavaScript and TypeScript
  "package.json package-lock.json npm-shrinkwrap.json pnpm-lock.yaml pnpm-workspace.yaml yarn.lock bun.lock",
  "bun.lockb bunfig.toml deno.json deno.jsonc deno.lock import_map.json node_modules patches lerna.json nx.json",
  "project.json workspace.json workspace.jsonc turbo.json turbo.jsonc rush.json moon.y*ml .moon .proto .prototools",
  "angular.json .angular-cli.json tsconfig*.json jsconfig*.json tslint.json *.config.js *.config.cjs *.config.mjs",
  "*.config.ts *.config.cts *.config.mts *.config.jsx *.config.tsx *.config.json *.config.jsonc *.conf.js",
  "*.conf.cjs *.conf.mjs *.conf.ts webpack.*.* rollup.*.* jest.* jest-setup.* jest-preset.* vitest.* karma.*",
  "cypress.json .storybook .eleventy.js .mocharc* .babelrc* .eslintrc* .oxlintrc* .prettierrc* .stylelintrc*",
  ".lintstagedrc* .swcrc* .nycrc* .c8rc* .jestrc* .taprc* .postcssrc* .parcelrc* .commitlintrc* .czrc .huskyrc*",
  ".releaserc* .release-it.* .sequelizerc .puppeteerrc* .nodemonrc* nodemon.json .ncurc* .syncpackrc* .graphqlrc*",
  "codegen.y*ml biome.json biome.jsonc dprint.json .dprint.json knip.json knexfile.* ormconfig.* gulpfile.*",
  "gruntfile.* jakefile* wrangler.toml wrangler.json wrangler.jsonc vercel.json netlify.toml firebase.json",
  "serverless.* electron-builder.* .nvmrc .node-version hardhat.* truffle.js truffle-config.js",
  // Python
  "pyproject.toml setup.py setup.cfg tox.ini noxfile.py tasks.py fabfile.py dodo.py pytest.ini .pytest.ini",
  "conftest.py pipfile pipfile.lock poetry.lock poetry.toml uv.lock uv.toml pdm.lock pdm.toml .pdm-python",
  "hatch.toml hatch_build.py requirements*.txt requirements*.in constraints*.txt environment.y*ml manage.py wsgi.py",
  "asgi.py settings.py alembic.ini gunicorn.conf.py celeryconfig.py sitecustomize.py usercustomize.py *.pth .pdbrc",
  ".pylintrc pylintrc mypy.ini .mypy.ini .flake8 .coveragerc .python-version mkdocs.y*ml conf.py snakefile",
  "sconstruct sconscript wscript dvc.yaml mlproject jupyter_*_config.* ipython_config.py .ipython .jupyter",
  "buildout.cfg pants.toml pants.ini .venv venv",
  // Ruby
  "gemfile gemfile.lock gems.rb gems.locked *.gemspec rakefile *.rake .irbrc .pryrc .rspec spec_helper.rb",
  "rails_helper.rb config.ru guardfile capfile fastfile podfile podfile.lock dangerfile dangerfile.* thorfile",
  "*.thor berksfile vagrantfile brewfile puppetfile appraisals .rubocop.y*ml .standard.y*ml .simplecov",
  ".ruby-version puma.rb unicorn.rb _config.y*ml",
  // PHP
  "composer.json composer.lock phpunit.xml* phpstan.neon* psalm.xml* phpcs.xml* .phpcs.xml* .php-cs-fixer* .php_cs*",
  "rector.php ecs.php castor.php robofile.php deploy.php artisan behat.y*ml codeception.y*ml grumphp.y*ml .user.ini",
  ".htaccess php.ini infection.json*",
  // Java, Kotlin, Scala, Groovy, Clojure
  "pom.xml mvnw mvnw.cmd maven-wrapper.* build.xml ivy.xml ivysettings.xml *.gradle *.gradle.kts gradle.properties",
  "gradle-wrapper.* gradlew gradlew.bat gradle.lockfile libs.versions.toml .gradle buildsrc build-logic *.sbt",
  "build.properties build.sc build.mill .mill-version .jvmopts .sbtopts .scalafix.conf *.main.kts deps.edn",
  "project.clj profiles.clj bb.edn shadow-cljs.edn build.boot .lein jbang-catalog.json .sdkmanrc jitpack.y*ml",
  // Rust, Go, Swift, Dart
  "cargo.toml cargo.lock build.rs rust-toolchain rust-toolchain.toml cross.toml makefile.toml nextest.toml xtask",
  "go.mod go.sum go.work go.work.sum go.env magefile.go magefiles .goreleaser.* .golangci.* .air.toml package.swift",
  "package.resolved cartfile cartfile.* mintfile *.xcconfig *.pbxproj *.xcscheme project.y*ml pubspec.yaml",
  "pubspec.lock build.yaml analysis_options.yaml dart_test.yaml melos.yaml",
  // C, C++ and their builders
  "makefile makefile.* gnumakefile bsdmakefile *.mk *.mak *.make *.cmake cmakelists.txt cmakepresets.json",
  "cmakeuserpresets.json meson.build meson.options meson_options.txt configure.ac configure.in autogen.sh *.am *.m4",
  "conanfile.* vcpkg.json vcpkg-configuration.json *.ninja xmake.lua premake*.lua jamfile* jamroot* *.pro *.pri",
  "doxyfile* tupfile tuprules.tup",
  // .NET
  "*.csproj *.fsproj *.vbproj *.vcxproj *.sln *.slnx *.props *.targets *.nuspec *.cake *.fsx *.tt *.rsp",
  "*.runsettings nuget.config global.json dotnet-tools.json packages.config packages.lock.json paket.*",
  "launchsettings.json omnisharp.json",
  // Elixir, Erlang, Haskell, OCaml, Nim, Zig, Crystal, Julia, R, Perl, Lua and others
  "mix.exs mix.lock .formatter.exs .credo.exs .iex.exs config.exs runtime.exs dev.exs prod.exs releases.exs",
  "test_helper.exs rebar.config rebar.lock rebar3 emakefile *.cabal cabal.project cabal.project.* stack.yaml",
  "package.yaml setup.hs setup.lhs .ghci hie.yaml shakefile.hs dune-project dune-workspace *.opam .ocamlinit",
  "*.nimble *.nims nim.cfg build.zig build.zig.zon shard.y*ml project.toml manifest.toml startup.jl build.jl",
  ".rprofile .renviron renv.lock _targets.r makefile.pl build.pl cpanfile dist.ini .proverc *.rockspec .luacheckrc",
  ".busted .luarc.json config.ld spago.* foundry.toml brownie-config.* dub.json dub.sdl v.mod",
  // runners, containers and infrastructure
  ".env .env.* justfile .justfile *.just taskfile.* procfile procfile.* earthfile tiltfile skaffold.y*ml",
  "garden.y*ml process-compose.y*ml dagger.json dockerfile dockerfile.* *.dockerfile containerfile containerfile.*",
  "compose*.y*ml docker-compose*.y*ml docker-bake.* nixpacks.toml render.y*ml railway.json heroku.y*ml fly.toml",
  "*.nix flake.lock guix.scm channels.scm devbox.json devenv.yaml *.tf *.tfvars *.hcl .terraformrc pulumi.y*ml",
  "ansible.cfg cdk.json samconfig.toml .trunk",
  // Bazel, Buck and their like
  "*.bazel *.bzl .bazelrc .bazelversion workspace.bzlmod .buckconfig buck"
].flatMap((it) => it.split(" "))

/** As `byCommands`, of files alone: folders often have these names, too. */
const filesByCommands = new Set(["build", "targets", "workspace", "dune", "configure", "bootstrap"])

/**
 * Tells who executes what lies at a path, its parts in order: `themselves` without being asked, `commands` when they
 * are run; `undefined` if nothing that is known does.
 */
export const executedBy = (parts: ReadonlyArray<string>): "themselves" | "commands" | undefined => {
  // as file systems that do not tell cases apart fold them
  const names = parts.map((it) => it.toUpperCase().toLowerCase())
  if (names.some(isByThemselves)) return "themselves"
  return names.some(isByCommands) || filesByCommands.has(names.at(-1) ?? "") ? "commands" : undefined
}

/** No file system takes a longer name, so a pattern with two wildcards stays quick. */
const longestName = 255

const isOneOf = (patterns: ReadonlyArray<string>): (name: string) => boolean => {
  const form = new RegExp(`^(?:${patterns.map((it) => it.replaceAll(".", "\\.").replaceAll("*", "[^]*")).join("|")})$`)
  return (name) => name.length <= longestName && form.test(name)
}

const isByThemselves = isOneOf(byThemselves)
const isByCommands = isOneOf(byCommands)
