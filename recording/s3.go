package recording

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// S3 is a Store in a bucket of Amazon S3 or of whatever speaks its API.
type S3 struct {
	client         *minio.Client
	bucket, prefix string
}

// S3Config is how to reach a bucket.
type S3Config struct {
	// Endpoint is the address of a server that is not Amazon's.
	Endpoint string
	Region   string
	// KeyID and Secret are an access key, Session its token if it is temporary; without them the role of the machine
	// counts.
	KeyID, Secret, Session string
}

// NewS3 returns the Store of s3://BUCKET/PREFIX.
func NewS3(address string, cfg S3Config) (*S3, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "s3" || u.Host == "" {
		return nil, fmt.Errorf("%q is no address of the form s3://BUCKET/PREFIX", address)
	}
	endpoint := &url.URL{Scheme: "https", Host: "s3.amazonaws.com"}
	if cfg.Endpoint != "" {
		endpoint, err = url.Parse(cfg.Endpoint)
		if err != nil || endpoint.Host == "" || endpoint.Scheme != "http" && endpoint.Scheme != "https" {
			return nil, fmt.Errorf("%q is no address of a server", cfg.Endpoint)
		}
		if strings.Trim(endpoint.Path, "/")+endpoint.RawQuery != "" {
			return nil, fmt.Errorf("%q: the address of an S3 server has no path: the bucket is in s3://BUCKET/PREFIX",
				cfg.Endpoint)
		}
	}
	key := credentials.NewIAM("")
	if cfg.KeyID != "" {
		key = credentials.NewStaticV4(cfg.KeyID, cfg.Secret, cfg.Session)
	}
	client, err := minio.New(endpoint.Host, &minio.Options{
		Creds: key, Secure: endpoint.Scheme == "https", Region: cfg.Region,
	})
	if err != nil {
		return nil, fmt.Errorf("make client of %s: %w", endpoint.Host, err)
	}
	return &S3{client, u.Host, strings.Trim(u.Path, "/")}, nil
}

func (s *S3) key(parts ...string) string { return path.Join(append([]string{s.prefix}, parts...)...) }

// Put uploads a file, large ones in parts.
func (s *S3) Put(ctx context.Context, folder, name string, r io.Reader, size int64) error {
	kind := "audio/ogg"
	if strings.HasSuffix(name, ".json") {
		kind = "application/json"
	}
	key := s.key(folder, name)
	if _, err := s.client.PutObject(ctx, s.bucket, key, r, size, minio.PutObjectOptions{ContentType: kind}); err != nil {
		return fmt.Errorf("upload recording: %w", err)
	}
	// The local file goes next: what is there must be whole.
	kept, err := s.client.StatObject(ctx, s.bucket, key, minio.StatObjectOptions{})
	if err != nil {
		return fmt.Errorf("check uploaded recording: %w", err)
	}
	if size >= 0 && kept.Size != size {
		return fmt.Errorf("check uploaded recording: %d of %d bytes are there", kept.Size, size)
	}
	return nil
}

// Open opens a file, of which it fetches what is read.
func (s *S3) Open(ctx context.Context, folder, name string) (io.ReadSeekCloser, error) {
	object, err := s.client.GetObject(ctx, s.bucket, s.key(folder, name), minio.GetObjectOptions{})
	if err == nil {
		if _, err = object.Stat(); err == nil {
			return object, nil
		}
		err = errors.Join(err, object.Close())
	}
	if response, ok := errors.AsType[minio.ErrorResponse](err); ok && response.Code == minio.NoSuchKey {
		err = fs.ErrNotExist
	}
	return nil, fmt.Errorf("open recording: %w", err)
}

// Delete removes what is in a folder.
func (s *S3) Delete(ctx context.Context, folder string) error {
	if folder == "" || folder == "." || strings.Contains(folder, "..") {
		return fmt.Errorf("delete recording %q: %w", folder, fs.ErrInvalid)
	}
	below := minio.ListObjectsOptions{Prefix: s.key(folder) + "/", Recursive: true}
	for object := range s.client.ListObjectsIter(ctx, s.bucket, below) {
		err := object.Err
		if err == nil {
			err = s.client.RemoveObject(ctx, s.bucket, object.Key, minio.RemoveObjectOptions{})
		}
		if err != nil {
			return fmt.Errorf("delete recording: %w", err)
		}
	}
	return nil
}

// NewStore returns the Store of an address: s3://BUCKET/PREFIX, or a folder.
func NewStore(address string, cfg S3Config) (Store, error) {
	if strings.HasPrefix(address, "s3:") {
		return NewS3(address, cfg)
	}
	return Folder(address), nil
}
