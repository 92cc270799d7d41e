-- +goose Up

-- where others reach the process's HTTP server, empty: nowhere, and the SHA-256 of the certificate that it shows there
ALTER TABLE instances ADD COLUMN url text NOT NULL DEFAULT '';
ALTER TABLE instances ADD COLUMN certificate text NOT NULL DEFAULT '';
