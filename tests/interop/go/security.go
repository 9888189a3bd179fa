package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// security is how to come in: a mechanism or none, TLS with an authority or none, a certificate of one's own or none.
type security struct {
	Mechanism string `json:"mechanism"`
	User      string `json:"user"`
	Password  string `json:"password"`
	Token     string `json:"token"`
	CA        string `json:"ca"`
	Client    string `json:"client"`
}

func (s security) options() ([]kgo.Opt, error) {
	found := []kgo.Opt{}
	if s.Mechanism != "" {
		found = append(found, kgo.SASL(s.mechanism()))
	}
	if s.CA == "" {
		return found, nil
	}
	trusted, err := os.ReadFile(s.CA)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	config.RootCAs.AppendCertsFromPEM(trusted)
	if s.Client != "" {
		own, err := tls.LoadX509KeyPair(s.Client, s.Client)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	return append(found, kgo.DialTLSConfig(config)), nil
}

func (s security) mechanism() sasl.Mechanism {
	switch s.Mechanism {
	case "PLAIN":
		return plain.Auth{User: s.User, Pass: s.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha512Mechanism()
	default:
		return oauth.Auth{Token: s.Token}.AsMechanism()
	}
}
