// The official OpenSandbox SDK against the stand-in platform of the end-to-end tests: what its own
// client takes for a platform is one.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { after, before, test } from 'node:test';

import { ConnectionConfig, Sandbox, SandboxManager } from '@alibaba-group/opensandbox';

const KEY = 'sk-sdk-test';
let server, connectionConfig, sandbox;

before(async () => {
  server = spawn('/usr/bin/python3', ['../e2e/opensandbox_server.py'],
    { env: { ...process.env, KEY }, stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = await once(server.stdout, 'data');
  connectionConfig = new ConnectionConfig(
    { domain: String(line).trim().replace('http://', ''), protocol: 'http', apiKey: KEY });
  sandbox = await Sandbox.create(
    { connectionConfig, image: 'python:3.12', timeoutSeconds: 120, metadata: { who: 'sdk' }, env: { A: 'b' } });
});

after(async () => {
  server.kill('SIGTERM');
  await once(server, 'exit');
});

test('a wrong key is refused', async () => {
  const wrong = new ConnectionConfig({ domain: connectionConfig.domain, protocol: 'http', apiKey: 'wrong' });
  await assert.rejects(Sandbox.create({ connectionConfig: wrong, image: 'python:3.12' }));
});

test('commands: streams, exit codes, variables', async () => {
  const good = await sandbox.commands.run('echo $A; echo; echo err >&2');
  assert.equal(good.exitCode, 0);
  assert.equal(good.logs.stdout[0].text, 'b');
  assert.equal(good.logs.stderr[0].text, 'err');
  assert.equal((await sandbox.commands.run('exit 3')).exitCode, 3);
});

test('commands in the background: status and logs', async () => {
  const begun = await sandbox.commands.run('echo one; exit 4', { background: true });
  let status;
  do {
    status = await sandbox.commands.getCommandStatus(begun.id);
  } while (status.running);
  assert.equal(status.exitCode, 4);
  assert.equal((await sandbox.commands.getBackgroundCommandLogs(begun.id)).content, 'one\n');
});

test('files and folders', async () => {
  const home = (await sandbox.commands.run('pwd')).logs.stdout[0].text;
  await sandbox.files.createDirectories([{ path: `${home}/d`, mode: 755 }]);
  await sandbox.files.writeFiles([{ path: `${home}/d/f`, data: 'hello', mode: 644 }]);
  assert.equal(await sandbox.files.readFile(`${home}/d/f`), 'hello');
  await sandbox.files.moveFiles([{ src: `${home}/d/f`, dest: `${home}/d/g` }]);
  const found = await sandbox.files.search({ path: home, pattern: 'g' });
  assert.deepEqual(found.map((f) => f.path), [`${home}/d/g`]);
  assert.equal((await sandbox.files.getFileInfo([`${home}/d/g`]))[`${home}/d/g`].size, 5);
  await sandbox.files.deleteFiles([`${home}/d/g`]);
  await sandbox.files.deleteDirectories([`${home}/d`]);
  await assert.rejects(sandbox.files.getFileInfo([`${home}/d/g`]));
});

test('its life: info, list, renewal, metrics, the end', async () => {
  assert.equal((await sandbox.getInfo()).status.state, 'Running');
  const manager = SandboxManager.create({ connectionConfig });
  const listed = await manager.listSandboxInfos({ metadata: { who: 'sdk' } });
  assert.deepEqual(listed.items.map((s) => s.id), [sandbox.id]);
  await sandbox.renew(600);
  assert.ok((await sandbox.getInfo()).expiresAt > Date.now() + 500_000);
  assert.ok((await sandbox.getMetrics()).cpuCount > 0);
  await sandbox.kill();
  await assert.rejects(manager.getSandboxInfo(sandbox.id));
});
