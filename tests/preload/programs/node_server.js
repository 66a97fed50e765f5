// A web server on node's http: node_server.js PORT DIRECTORY.
'use strict';
const fs = require('fs');
const http = require('http');
const path = require('path');

const [port, directory] = process.argv.slice(2);

http.createServer((request, response) => {
  const name = path.basename(request.url.split('?')[0]);
  const file = fs.createReadStream(path.join(directory, name));
  file.on('open', (fd) => {
    response.writeHead(200, {'Content-Length': fs.fstatSync(fd).size});
    file.pipe(response);
  });
  file.on('error', () => response.writeHead(404).end());
}).listen({port: Number(port), host: '::'});
