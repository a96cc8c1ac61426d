# The platform's processes as images: `control` runs the API, the workers and the set-up; `node` adds Python.
FROM node:24.21.0-bookworm-slim AS control
WORKDIR /hearth
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --no-audit --no-fund
COPY . .
RUN mkdir -p /var/lib/hearth && chown -R node:node /var/lib/hearth
USER node
ENV NODE_ENV=production HEARTH_HOST=0.0.0.0 HEARTH_CACHE_DIR=/var/lib/hearth/cache
STOPSIGNAL SIGTERM
EXPOSE 8420
CMD ["node", "--max-semi-space-size=32", "api/main.ts"]

FROM control AS node
USER root
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 python3-venv libgomp1 \
 && rm -rf /var/lib/apt/lists/*
USER node
ENV HEARTH_NODE_DIR=/var/lib/hearth/node
CMD ["sh", "-c", "HEARTH_NODE_TOKEN=$(cat /run/hearth/node-token) exec node workers/node.ts"]
