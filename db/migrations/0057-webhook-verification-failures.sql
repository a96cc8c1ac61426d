-- Why a destination is not verified: the result of its last challenge, shown to its owner.
alter table webhook_endpoint add column verification_failure jsonb;
