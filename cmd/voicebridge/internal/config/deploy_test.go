package config

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"voicebridge/internal/testkit"
)

const deploy = "../../../../deploy/"

func readDeploy(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(deploy + name)
	must(t, err)
	return string(raw)
}

// filled is what an operator fills in.
var filled = map[string]string{
	"DOMAIN": "voice.example.org", "PUBLIC_IP": "203.0.113.7", "OPENAI_API_KEY": "sk-1", "VOICEBRIDGE_API_TOKENS": "anna:0123456789abcdef",
	"POSTGRES_PASSWORD": "p", "VOICEBRIDGE_SECRET": strings.Repeat("s", 32), "TURN_SECRET": "t",
}

// mustLoad checks that a start accepts the environment.
func mustLoad(t *testing.T, environ []string) Config {
	t.Helper()
	cfg, err := Load(Sources{File: noFile(t), Environ: environ})
	must(t, err)
	return cfg
}

// TestCompose reads the settings of compose.yaml, filled in as env.example says.
func TestCompose(t *testing.T) {
	t.Parallel()
	text := readDeploy(t, "compose.yaml")
	example := readDeploy(t, "env.example")
	text = regexp.MustCompile(`\$\{(\w+)[^}]*\}`).ReplaceAllStringFunc(text, func(use string) string {
		name := regexp.MustCompile(`\w+`).FindString(use)
		if !strings.Contains(example, "\n"+name+"=\n") {
			t.Errorf("env.example does not name %s", name)
		}
		return filled[name]
	})
	var doc map[string]any
	must(t, yaml.Unmarshal([]byte(text), &doc))
	services, _ := doc["services"].(map[string]any)
	checkServices(t, services, at(doc, "volumes"))
	service, _ := services["voicebridge"].(map[string]any)
	variables, _ := service["environment"].(map[string]any)
	var environ []string
	for name, value := range variables {
		environ = append(environ, name+"="+value.(string))
	}
	image := regexp.MustCompile(`(?m)^ENV (.*)$`).FindStringSubmatch(readDeploy(t, "Dockerfile"))
	cfg := mustLoad(t, append(strings.Fields(image[1]), environ...))
	if cfg.Media.UDPPort != 40000 || cfg.Loopback() || len(cfg.TURN.URLs) != 2 || cfg.Driver() != UpstreamOpenAI || !strings.HasPrefix(cfg.Secrets.DatabaseURL.Reveal(), "postgres://") {
		t.Errorf("settings %+v", cfg)
	}
	// Otherwise other settings in .env have no effect. The longer form is unknown to Docker Compose before 2.24 and to podman-compose.
	testkit.Equal(t, fmt.Sprint(service["env_file"]), ".env", "it reads")
	networks, _ := at(doc, "networks", "default", "ipam")["config"].([]any)
	if subnet, _ := networks[0].(map[string]any)["subnet"].(string); !strings.HasPrefix(subnet, "10.") || fmt.Sprint(cfg.TrustedProxies) != "["+subnet+"]" {
		t.Errorf("the proxy is in %s, and trusted are %v", subnet, cfg.TrustedProxies)
	}
	for _, removed := range []string{"--no-cli", "--no-dtls"} { // what they switched off is off since coturn 4.17
		if strings.Contains(text, removed) {
			t.Errorf("coturn does not start with %s", removed)
		}
	}
}

// TestLocalVoice reads the settings with which docs/local-voice.md begins. Those beside a compose file name what it starts and fetches.
func TestLocalVoice(t *testing.T) {
	t.Parallel()
	load := func(file string) Config {
		cfg, err := Load(Sources{File: deploy + file})
		must(t, err)
		testkit.Equal(t, cfg.Upstream, "cascade", "%s: the upstream", file)
		return cfg
	}
	load("../examples/speech/voicebridge.yaml")
	cfg, text := load("local-voice/voicebridge.yaml"), readDeploy(t, "local-voice/compose.yaml")
	var doc map[string]any
	must(t, yaml.Unmarshal([]byte(text), &doc))
	checkServices(t, at(doc, "services"), at(doc, "volumes"))
	for what, named := range map[string]string{
		"recogniser": cfg.Cascade.STT.URL, "voice": cfg.Cascade.TTS.URL, "text model": cfg.OllamaHost,
	} {
		address := regexp.MustCompile(`127\.0\.0\.1:(\d+)`).FindStringSubmatch(named)
		if !strings.Contains(text, fmt.Sprintf(`ports: ["%s:%s"]`, address[0], address[1])) {
			t.Errorf("no %s is started for %s", what, named)
		}
	}
	for _, fetched := range []string{"/v1/models/" + cfg.Cascade.STT.Model + "\n", `{"model": "` + cfg.Text.Model + `"`} {
		if !strings.Contains(text, fetched) {
			t.Errorf("nobody fetches %s", fetched)
		}
	}
}

// TestKubernetes reads the settings of the Deployment, with its secret and the variables that
// Kubernetes adds.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	manifest, _, _ := strings.Cut(readDeploy(t, "kubernetes.yaml"), "\n---\n")
	var doc map[string]any
	must(t, yaml.Unmarshal([]byte(manifest), &doc))
	environ := []string{
		"DATABASE_URL=postgres://u:p@h/db", "OPENAI_API_KEY=sk-1", "VOICEBRIDGE_API_TOKENS=" + filled["VOICEBRIDGE_API_TOKENS"], "VOICEBRIDGE_SECRET=" + filled["VOICEBRIDGE_SECRET"],
		"VOICEBRIDGE_SERVICE_HOST=10.0.0.1", "VOICEBRIDGE_SERVICE_PORT_HTTP=80", "VOICEBRIDGE_PORT=tcp://10.0.0.1:80", "VOICEBRIDGE_PORT_80_TCP_PROTO=tcp",
	}
	spec := at(doc, "spec", "template", "spec")
	containers, _ := spec["containers"].([]any)
	container, _ := containers[0].(map[string]any)
	checkManifest(t, doc, container)
	variables, _ := container["env"].([]any)
	for _, v := range variables {
		v, _ := v.(map[string]any)
		value, ok := v["value"].(string)
		if !ok {
			value = filled["PUBLIC_IP"] // the node's
		}
		environ = append(environ, v["name"].(string)+"="+value)
	}
	cfg := mustLoad(t, environ)
	pause, _ := at(container, "lifecycle", "preStop", "sleep")["seconds"].(int)
	if grace, _ := spec["terminationGracePeriodSeconds"].(int); pause == 0 || time.Duration(grace-pause)*time.Second <= 2*cfg.Shutdown || cfg.Media.UDPPort != 40000 || len(cfg.TrustedProxies) != 1 {
		t.Errorf("pause %d, grace %d, settings %+v", pause, grace, cfg)
	}
}

// TestSystemd reads the settings of the unit as shipped.
func TestSystemd(t *testing.T) {
	t.Parallel()
	var environ []string
	for line := range strings.Lines(readDeploy(t, "voicebridge.env")) {
		if !strings.HasPrefix(line, "#") {
			environ = append(environ, strings.TrimSpace(line))
		}
	}
	// systemd gives up after five starts within ten seconds.
	for _, line := range []string{"\nRestart=on-failure\n", "\nRestartSec=5\n", "\nKillMode=mixed\n", "\nEnvironment=HOME=/var/lib/voicebridge\n"} {
		if !strings.Contains(readDeploy(t, "voicebridge.service"), line) {
			t.Errorf("the unit lacks %q", line)
		}
	}
	if cfg := mustLoad(t, environ); cfg.Media.UDPPort != 40000 || cfg.Driver() != UpstreamSimulator {
		t.Errorf("settings %+v", cfg)
	}
}

// TestImageIsConfined checks that the image runs without root privileges, and that both deployments
// give it a read-only root, no capabilities, and a place for the files that calls write: the image's
// folder, below which the spool is, outlives a restart of the program.
func TestImageIsConfined(t *testing.T) {
	t.Parallel()
	dockerfile := readDeploy(t, "Dockerfile")
	for _, line := range []string{"\nFROM scratch\n", "\nUSER 65532:65532\n", "\nWORKDIR /data\n", "\nVOLUME /data\n", "--chown=65532:65532"} {
		if !strings.Contains(dockerfile, line) {
			t.Errorf("the Dockerfile lacks %q", line)
		}
	}
	var compose map[string]any
	must(t, yaml.Unmarshal([]byte(readDeploy(t, "compose.yaml")), &compose))
	service := at(compose, "services", "voicebridge")
	if service["read_only"] != true || fmt.Sprint(service["cap_drop"]) != "[ALL]" || fmt.Sprint(service["security_opt"]) != "[no-new-privileges:true]" ||
		fmt.Sprint(service["tmpfs"]) != "[/tmp]" || fmt.Sprint(service["volumes"]) != "[voicebridge:/data]" {
		t.Errorf("compose.yaml runs it with %v", service)
	}
	manifest, _, _ := strings.Cut(readDeploy(t, "kubernetes.yaml"), "\n---\n")
	var doc map[string]any
	must(t, yaml.Unmarshal([]byte(manifest), &doc))
	pod := at(doc, "spec", "template", "spec")
	container, _ := pod["containers"].([]any)[0].(map[string]any)
	confined := at(container, "securityContext")
	if user := at(pod, "securityContext"); user["runAsNonRoot"] != true || user["runAsUser"] != 65532 || user["fsGroup"] != 65532 || confined["readOnlyRootFilesystem"] != true ||
		confined["allowPrivilegeEscalation"] != false || fmt.Sprint(confined["capabilities"]) != "map[drop:[ALL]]" {
		t.Errorf("kubernetes.yaml runs it as %v with %v", user, confined)
	}
	mounts := map[string]bool{}
	for _, m := range container["volumeMounts"].([]any) {
		mounts[fmt.Sprint(m.(map[string]any)["mountPath"])] = true
	}
	if !mounts["/data"] || !mounts["/tmp"] {
		t.Errorf("kubernetes.yaml mounts %v", mounts)
	}
}

// at returns the map below some keys of a document, empty if there is none.
func at(doc map[string]any, keys ...string) map[string]any {
	for _, key := range keys {
		doc, _ = doc[key].(map[string]any)
	}
	return doc
}

// checkServices checks that parts of compose.yaml that refer to each other exist.
func checkServices(t *testing.T, services, volumes map[string]any) {
	t.Helper()
	for name, s := range services {
		service, _ := s.(map[string]any)
		if (service["image"] == nil) == (service["build"] == nil) {
			t.Errorf("the service %s needs an image, or a build", name)
		}
		for other, how := range at(service, "depends_on") {
			condition, _ := how.(map[string]any)
			if needed := at(services, other); needed == nil || condition["condition"] == "service_healthy" && needed["healthcheck"] == nil {
				t.Errorf("%s waits for %s, which does not say when it is healthy", name, other)
			}
		}
		mounts, _ := service["volumes"].([]any)
		for _, m := range mounts {
			volume, path, _ := strings.Cut(m.(string), ":")
			if _, ok := volumes[volume]; !ok || !strings.HasPrefix(path, "/") {
				t.Errorf("%s mounts %s, which is not declared", name, m)
			}
		}
	}
}

// checkManifest checks that parts of kubernetes.yaml that refer to each other exist.
func checkManifest(t *testing.T, deployment, container map[string]any) {
	t.Helper()
	_, second, _ := strings.Cut(readDeploy(t, "kubernetes.yaml"), "\n---\n")
	var service map[string]any
	must(t, yaml.Unmarshal([]byte(second), &service))
	if deployment["kind"] != "Deployment" || deployment["apiVersion"] != "apps/v1" || service["kind"] != "Service" || service["apiVersion"] != "v1" {
		t.Errorf("kinds %v %v and %v %v", deployment["apiVersion"], deployment["kind"], service["apiVersion"], service["kind"])
	}
	labels := at(deployment, "spec", "template", "metadata", "labels")
	for where, selector := range map[string]map[string]any{
		"Deployment": at(deployment, "spec", "selector", "matchLabels"), "Service": at(service, "spec", "selector"),
	} {
		if len(selector) == 0 || !maps.Equal(selector, labels) {
			t.Errorf("%s selects %v, the pods have %v", where, selector, labels)
		}
	}
	ports, volumes := map[any]bool{}, map[any]bool{}
	for _, p := range container["ports"].([]any) {
		ports[p.(map[string]any)["name"]] = true
	}
	for _, v := range at(deployment, "spec", "template", "spec")["volumes"].([]any) {
		volumes[v.(map[string]any)["name"]] = true
	}
	for _, m := range container["volumeMounts"].([]any) {
		if name := m.(map[string]any)["name"]; !volumes[name] {
			t.Errorf("there is no volume %v", name)
		}
	}
	var asked []any
	for _, probe := range []string{"startupProbe", "readinessProbe", "livenessProbe"} {
		asked = append(asked, at(container, probe, "httpGet")["port"])
	}
	for _, p := range at(service, "spec")["ports"].([]any) {
		asked = append(asked, p.(map[string]any)["targetPort"])
	}
	for _, port := range asked {
		if !ports[port] {
			t.Errorf("the container has no port %v", port)
		}
	}
}
