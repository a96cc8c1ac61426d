-- Why a destination is not verified: what came of its last challenge, for its owner to read.
alter table webhook_endpoint add column verification_failure jsonb;
