import { createHash } from 'node:crypto'
import { existsSync, lstatSync, readlinkSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { create } from 'tar'
import type { ContainerDriver } from '../processes/container-driver.ts'

/**
 * The machine's programs and libraries. If one is a symlink, such as /lib to /usr/lib, the root gets the same symlink.
 */
const SYSTEM = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/nix/store', '/gnu/store']
const FILES = ['/etc/ld.so.cache', '/etc/localtime', '/etc/alternatives', '/etc/ssl/certs', '/etc/pki/tls']
const EMPTY = ['proc', 'sys', 'dev', 'tmp', 'run', 'etc', 'hearth/bin', 'hearth/input', 'hearth/tool']
const OWN = {
  'etc/passwd': 'tool:x:65534:65534::/tmp:/bin/sh\n',
  'etc/group': 'tool:x:65534:\n',
  'etc/nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files\n',
}

const isLink = (path: string) => lstatSync(path).isSymbolicLink()

/** Returns the folders and files of this machine that tools need, for read-only mounts. */
export function machineMounts(): string[] {
  return [
    ...SYSTEM.filter((path) => existsSync(path) && !isLink(path)),
    ...FILES.filter((path) => existsSync(path)),
  ]
}

/**
 * Returns the id of an image that contains only mount points. With the machine's own programs mounted read-only, it
 * serves as the tools' root, so no registry is needed.
 */
export async function machineRoot(containers: ContainerDriver): Promise<string> {
  const links = SYSTEM.filter((path) => existsSync(path) && isLink(path)).map(
    (path) => [path, readlinkSync(path)] as const,
  )
  const folders = [
    ...EMPTY,
    ...machineMounts()
      .filter((path) => SYSTEM.includes(path))
      .map((path) => path.slice(1)),
  ]
  const digest = createHash('sha256')
    .update(JSON.stringify([links, folders, OWN]))
    .digest('hex')
  const folder = await mkdtemp(join(await realpath(tmpdir()), 'hearth-root-'))
  try {
    const root = join(folder, 'root')
    for (const path of folders) await mkdir(join(root, path), { recursive: true })
    // Tools run as another user, so override a restrictive umask.
    for (const path of ['', 'hearth', ...folders]) await chmod(join(root, path), 0o755)
    // Engines give a tmpfs the mode of the folder that it covers.
    await chmod(join(root, 'tmp'), 0o1777)
    for (const [path, target] of links) await symlink(target, join(root, path))
    for (const [path, text] of Object.entries(OWN)) {
      await mkdir(dirname(join(root, path)), { recursive: true })
      await writeFile(join(root, path), text)
      await chmod(join(root, path), 0o644)
    }
    const archive = join(folder, 'root.tar')
    await create({ file: archive, cwd: root }, ['.'])
    return await containers.builtImage(`localhost/hearth-tools-root:1.${digest.slice(0, 16)}`, archive)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
