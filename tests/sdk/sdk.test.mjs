// The official TypeScript SDK clients against anybox over stdio and HTTP: v1, and v2 in its
// legacy, auto (which probes, on stdio with a sibling process) and pinned modern modes.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { Client as ClientV2, StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const info = { name: 'anybox-sdk-tests', version: '1.0.0' };
const MODERN = '2026-07-28';

const capabilities = { elicitation: { form: {} } };
const pinned = { mode: { pin: MODERN } };

const clients = {
  'v1': () => new ClientV1(info, { capabilities }),
  'v2 legacy': () => new ClientV2(info, { capabilities }),
  'v2 auto': () => new ClientV2(info, { capabilities, versionNegotiation: { mode: 'auto' } }),
  'v2 pinned': () => new ClientV2(info, { capabilities, versionNegotiation: pinned }),
};

// A server of its own, with the key that its first start shows.
async function serve(env, cwd) {
  const server = spawn(process.env.ANYBOX, ['serve', '--port', '0'], { env, cwd, stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  for (const output of [server.stdout, server.stderr]) {
    output.on('data', (data) => { said += data; });
  }
  for (let i = 0; i < 200; i++) {
    const url = said.match(/http:\S+\/mcp/), key = said.match(/key (abx_\S+)/);
    if (url && key) {
      return { server, url: new URL(url[0]), key: key[1] };
    }
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  server.kill();
  throw new Error(`the server did not start: ${said}`);
}

const cases = ['stdio', 'http'].flatMap((way) => Object.keys(clients).map((flavour) => [way, flavour]));

for (const [way, flavour] of cases) {
  describe(`${flavour} ${way}`, () => {
    const home = mkdtempSync(join(tmpdir(), 'abx-sdk-'));
    const env = { PATH: process.env.PATH, HOME: home, ANYBOX_HOME: join(home, 'state') };
    const modern = flavour === 'v2 auto' || flavour === 'v2 pinned';
    const questions = [];
    let client, transport, reply, http;

    before(async () => {
      client = clients[flavour]();
      client.setRequestHandler(flavour === 'v1' ? ElicitRequestSchema : 'elicitation/create', async (request) => {
        questions.push(request.params.message);
        return reply;
      });
      if (way === 'http') {
        http = await serve(env, home);
        const requestInit = { headers: { Authorization: `Bearer ${http.key}` } };
        transport = new (flavour === 'v1' ? HttpV1 : HttpV2)(http.url, { requestInit });
      } else {
        transport = new (flavour === 'v1' ? StdioV1 : StdioV2)({ command: process.env.ANYBOX, env, cwd: home });
      }
      await client.connect(transport);
    });

    after(async () => {
      const began = Date.now();
      await client.close();
      assert.ok(Date.now() - began < 1900, 'the SDK had to send a signal');
      if (http) {
        const ended = new Promise((resolve) => { http.server.on('exit', resolve); });
        http.server.kill();
        assert.equal(await ended, 0);
      }
      rmSync(home, { recursive: true, force: true });
    });

    const call = async (name, args, options) => {
      const result = flavour === 'v1'
        ? await client.callTool({ name, arguments: args }, undefined, options)
        : await client.callTool({ name, arguments: args }, options);
      assert.equal(result.content.length, 1);
      assert.equal(result.content[0].type, 'text');
      return { answer: JSON.parse(result.content[0].text), isError: result.isError ?? false };
    };

    test('it connects and knows the server', () => {
      assert.equal(client.getServerVersion().name, 'anybox');
      assert.deepEqual(Object.keys(client.getServerCapabilities()).sort(), ['completions', 'prompts', 'resources', 'tools']);
      assert.ok(client.getInstructions().length > 0);
      if (flavour !== 'v1') {
        assert.equal(client.getNegotiatedProtocolVersion(), modern ? MODERN : '2025-11-25');
      }
    });

    test('it lists the tools', async () => {
      const { tools } = await client.listTools();
      const names = tools.map((tool) => tool.name);
      for (const name of ['create_sandbox', 'exec_bash', 'list_sandboxes', 'read_remote_file']) {
        assert.ok(names.includes(name), name);
      }
    });

    test('a whole session works', async () => {
      const made = await call('create_sandbox', { name: 'sdk' });
      assert.equal(made.isError, false);
      assert.equal(made.answer.status, 'running');
      const ran = await call('exec_bash', { command: 'echo out; echo err >&2; exit 3' });
      assert.equal(ran.answer.exit_code, 3);
      assert.equal(ran.answer.stdout, 'out\n');
      assert.equal(ran.answer.stderr, 'err\n');
      await call('write_remote_file', { remote_path: 'a.txt', content: 'grüße' });
      assert.equal((await call('read_remote_file', { remote_path: 'a.txt' })).answer.content, 'grüße');
    });

    test('many calls run at once', async () => {
      const began = Date.now();
      const results = await Promise.all([...Array(10).keys()].map(
        (i) => call('exec_bash', { command: `sleep 0.5; echo ${i}` })));
      assert.deepEqual(results.map((r) => r.answer.stdout), [...Array(10).keys()].map((i) => `${i}\n`));
      assert.ok(Date.now() - began < 4500);
    });

    test('progress arrives', async () => {
      const heard = [];
      await call('exec_bash', { command: 'for i in 1 2 3; do echo step $i; sleep 1; done' },
        { onprogress: (progress) => heard.push(progress) });
      assert.ok(heard.length > 0);
      assert.ok(heard.every((p, i) => i === 0 || p.progress > heard[i - 1].progress));
    });

    test('an abort kills the command in the box', async () => {
      const abort = new AbortController();
      const waiting = call('exec_bash', { command: 'sleep 7654' }, { signal: abort.signal });
      setTimeout(() => abort.abort('enough'), 500);
      await assert.rejects(waiting);
      for (let i = 0; i < 40; i++) {
        const { answer } = await call('exec_bash', { command: "cat /proc/[0-9]*/cmdline | tr '\\0' ' '" });
        if (!answer.stdout.includes('sleep 7654')) {
          return;
        }
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
      assert.fail('the command still runs');
    });

    test('errors are readable', async () => {
      const failed = await call('exec_bash', { command: 'true', sandbox_id: 'nobody' });
      assert.equal(failed.isError, true);
      assert.equal(failed.answer.code, 'not_found');
      await assert.rejects(client.callTool({ name: 'no_such_tool', arguments: {} }), /no_such_tool/);
    });

    test('a busy box is deleted only with a yes', async () => {
      await call('exec_bash', { command: 'setsid sleep 4321 >/dev/null 2>&1 </dev/null &' });
      reply = { action: 'decline' };
      const kept = await call('delete_sandbox', { sandbox_name: 'sdk' });
      assert.equal(kept.answer.status, 'not_deleted');
      assert.equal(kept.isError, false);
      assert.match(questions[0], /1 process is running/);
      reply = { action: 'accept', content: { ok: true } };
      assert.equal((await call('delete_sandbox', { sandbox_name: 'sdk' })).answer.status, 'deleted');
      assert.equal(questions.length, 2);
      assert.deepEqual((await call('list_sandboxes', {})).answer.sandboxes, []);
    });
  });
}
