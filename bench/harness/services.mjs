// Storage servers that some adapters need. They are the runner's and not the worker's, so that one that is killed leaves
// them standing. All on loopback, all in a folder of the run.

import { execFileSync, spawn } from "node:child_process";
import { chownSync, existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const START_LIMIT_MS = 30_000;
const STOP_LIMIT_MS = 10_000;
const POSTGRES_HOME = "/usr/lib/postgresql";

const IS_ROOT = process.getuid?.() === 0;

export const SERVICES = { postgres: startPostgres, restate: startRestate };

/** A cluster of its own with the settings it comes with: every commit is synced. */
async function startPostgres(dir) {
  if (!existsSync(POSTGRES_HOME))
    throw new Error(`expected PostgreSQL in ${POSTGRES_HOME}, found nothing there`);
  const versions = readdirSync(POSTGRES_HOME).toSorted((a, b) => Number(a) - Number(b));
  const bin = join(POSTGRES_HOME, versions.at(-1), "bin");
  const data = join(dir, "data");
  mkdirSync(data, { recursive: true });
  const account = IS_ROOT ? { uid: idOf("-u"), gid: idOf("-g") } : {};
  if (IS_ROOT) chownSync(data, account.uid, account.gid);
  const quiet = { ...account, cwd: "/", stdio: "ignore" };
  execFileSync(join(bin, "initdb"), ["-D", data, "-A", "trust", "-U", "postgres"], quiet);
  const port = String(await freePort());
  const child = spawn(join(bin, "postgres"), ["-D", data, "-p", port, "-h", "127.0.0.1", "-k", ""], quiet);
  await started(child, () => {
    execFileSync(join(bin, "pg_isready"), ["-h", "127.0.0.1", "-p", port], { stdio: "ignore" });
    return true;
  });
  const info = { pid: child.pid, dir: data, url: `postgresql://postgres@127.0.0.1:${port}/` };
  return { info, stop: () => stopped(child) };
}

const idOf = (flag) => Number(execFileSync("id", [flag, "postgres"]));

/** One node of Restate, from its npm package. It is kept from asking the internet for a newer one, where that can be done. */
async function startRestate(dir) {
  const data = join(dir, "data");
  mkdirSync(data, { recursive: true });
  const [ingress, admin, node, endpoint] = [
    await freePort(),
    await freePort(),
    await freePort(),
    await freePort(),
  ];
  const program = fileURLToPath(
    new URL("../node_modules/@restatedev/restate-server-linux-x64/bin/restate-server", import.meta.url),
  );
  if (!existsSync(program)) throw new Error("expected the package of the Restate server, found none");
  const env = {
    ...process.env,
    RESTATE_DISABLE_TELEMETRY: "true",
    RESTATE_LOG_FILTER: "error",
    RESTATE_LISTEN_MODE: "tcp",
    RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE: "512 MiB",
    RESTATE_BIND_ADDRESS: `127.0.0.1:${node}`,
    RESTATE_ADVERTISED_ADDRESS: `http://127.0.0.1:${node}/`,
    RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
    RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
  };
  const [command, ...before] = withoutResolver(dir);
  const args = [...before, program, "--node-name", "bench", "--base-dir", data];
  const child = spawn(command, args, { env, stdio: "ignore" });
  const answers = async (port, path) => (await fetch(`http://127.0.0.1:${port}${path}`)).ok;
  await started(child, async () => (await answers(admin, "/health")) && answers(ingress, "/restate/health"));
  const address = (port) => `http://127.0.0.1:${port}`;
  const info = { pid: child.pid, dir: data, ingress: address(ingress), admin: address(admin), endpoint };
  return { info, stop: () => stopped(child) };
}

/** Root can give a process a resolver that finds nothing. */
function withoutResolver(dir) {
  if (!IS_ROOT) return ["env"];
  const resolver = join(dir, "resolv.conf");
  writeFileSync(resolver, "nameserver 127.0.0.1\n");
  return ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/resolv.conf; exec "$@"', resolver];
}

function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

async function started(child, isReady) {
  const until = Date.now() + START_LIMIT_MS;
  while (Date.now() < until && child.exitCode === null) {
    try {
      if (await isReady()) return;
    } catch {
      // Not yet.
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  child.kill("SIGKILL");
  throw new Error(`${child.spawnfile} did not start within ${START_LIMIT_MS / 1000} s`);
}

function stopped(child) {
  return new Promise((resolve) => {
    const timer = setTimeout(() => child.kill("SIGKILL"), STOP_LIMIT_MS);
    child.once("exit", () => {
      clearTimeout(timer);
      resolve();
    });
    child.kill("SIGINT");
  });
}
